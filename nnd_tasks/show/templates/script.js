"use strict";
// All tests of the page, to be searched. Texts of the data become text nodes and titles only, never markup.
(() => {
  const PAGE = 20; // tests shown at once
  const SAME = 400; // characters of a stretch that two candidates share, above which its middle is folded
  const CELLS = 250000; // texts with more pairs of words between their first and last difference are one difference
  const SHARED = 0.5; // texts that share less of their characters are shown without brackets; see margins.py
  const LEVELS = [10, 20, 40, 60, 90]; // tenths of a nat at which the colour of a token changes
  const LONG = 300; // characters above which a field of the prompt is folded

  const make = (tag, name, ...children) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...children);
    return element;
  };
  const count = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
  const signed = (value, digits = 3) => (value === null ? "–" : (value < 0 ? "" : "+") + value.toFixed(digits));

  // ---------------------------------------------------------------- data

  const unpack = async (element) => {
    const raw = atob(element.textContent);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  };
  const sources = [...document.querySelectorAll("script.data")];
  const unpacked = new Map();
  const piece = (number) => {
    if (!unpacked.has(number)) unpacked.set(number, unpack(sources[number]));
    return unpacked.get(number);
  };
  // What `read_prompt` in browsing.py returns.
  const promptOf = async ({ section, i }) => (await piece(section.piece[i]))[section.place[i]];

  // ---------------------------------------------------------------- two candidates

  const lengthOf = (text) => [...text].length;
  // A word or a single other character, with the space before it, as in alignment.py; scripts without spaces go by character.
  const ALONE = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
  const LETTER = "[\\p{L}\\p{N}_]";
  const PIECE = new RegExp(`\\s*(?:[${ALONE}]|(?:(?![${ALONE}])${LETTER})+|[^\\s])|\\s+`, "gu");

  // Return the differences of two texts, [start, end] in characters of each; null where they share too little.
  const differences = (left, right) => {
    const [a, b] = [left, right].map((text) => text.match(PIECE) || []);
    let head = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
    let tail = 0;
    while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
    const n = a.length - head - tail;
    const m = b.length - head - tail;
    const runs = []; // differing runs of words: [first, end, first, end]
    if (n * m > CELLS || n * m === 0) {
      if (n || m) runs.push([head, head + n, head, head + m]);
    } else { // longest common subsequence of words
      const width = m + 1;
      const best = new Uint16Array((n + 1) * width);
      for (let i = n - 1; i >= 0; i -= 1) {
        for (let j = m - 1; j >= 0; j -= 1) {
          best[i * width + j] = a[head + i] === b[head + j]
            ? best[(i + 1) * width + j + 1] + 1
            : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
        }
      }
      let [i, j, i0, j0] = [0, 0, 0, 0];
      const close = () => { if (i > i0 || j > j0) runs.push([head + i0, head + i, head + j0, head + j]); };
      while (i < n && j < m) {
        if (a[head + i] === b[head + j]) {
          close();
          i += 1; j += 1; i0 = i; j0 = j;
        } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i += 1;
        else j += 1;
      }
      i = n; j = m;
      close();
    }
    const spans = (words, from, to) => {
      const starts = [0];
      for (const word of words) starts.push(starts[starts.length - 1] + lengthOf(word));
      return runs.map((run) => {
        const space = run[from] < run[to] ? lengthOf(words[run[from]].match(/^\s*/)[0]) : 0;
        return [starts[run[from]] + space, starts[run[to]]];
      });
    };
    const both = [spans(a, 0, 1), spans(b, 2, 3)];
    const [first, second] = [left, right].map(lengthOf);
    const changed = (edits) => edits.reduce((sum, [start, end]) => sum + end - start, 0);
    const longer = first > second ? first - changed(both[0]) : second - changed(both[1]);
    return longer < SHARED * Math.max(first, second) ? null : both;
  };

  // Return [start, end] of the middles of long stretches without differences; none of them has a mark.
  const folded = (length, edits, marks) => {
    if (!edits) return [];
    const ends = [0, ...edits.flat(), length];
    const folds = [];
    for (let i = 0; i < ends.length; i += 2) {
      const [start, end] = [ends[i], ends[i + 1]];
      const fold = [start + (i ? 150 : 50), end - (i + 2 < ends.length ? 150 : 0)];
      if (end - start > SAME && !marks.some(([from, to]) => from < fold[1] && to > fold[0])) folds.push(fold);
    }
    return folds;
  };

  // Return a candidate as text: tokens coloured by surprise, differences in brackets, people's marks underlined.
  const painted = (text, edits, marks, tokens) => {
    const characters = [...text];
    const folds = folded(characters.length, edits, marks);
    const cuts = new Set([0, characters.length]);
    for (const [start, end] of [...(edits || []), ...marks, ...folds]) cuts.add(start).add(end);
    const around = []; // tokens around the text
    const inside = []; // [start, end, tenths]
    if (tokens) {
      const [lengths, tenths] = tokens;
      let end = 0;
      lengths.forEach((length, i) => {
        (length ? inside : around).push([end, end + length, tenths[i]]);
        end += length;
        cuts.add(end);
      });
    }
    const level = (tenths) => LEVELS.filter((bound) => tenths >= bound).length;
    const token = (shown, tenths, last, mark) => {
      const run = make("span", `t l${level(tenths)}${mark ? " error" : ""}`, shown);
      run.title = `surprise ${(tenths / 10).toFixed(1)} nats${mark ? `; marked: ${mark}` : ""}`;
      if (last) run.dataset.nats = (tenths / 10).toFixed(1);
      return run;
    };
    const extra = (at, shown) => around.filter(([start]) => start === at).map(([, , tenths]) => token(shown, tenths, true, ""));
    const paragraph = make("p", "words", ...(characters.length ? extra(0, "␣") : []));
    const points = [...cuts].filter((point) => point <= characters.length).sort((x, y) => x - y);
    paragraph.dir = "auto";
    let into = paragraph;
    let next = 0;
    points.forEach((start, i) => {
      for (const [from, to] of edits || []) {
        if (to === start && to > from) into.append(make("b", "edge", "⟧"));
      }
      if (folds.some(([, to]) => to === start)) into = paragraph;
      for (const [from, to] of edits || []) {
        if (from === start) into.append(make("b", "edge", to > from ? "⟦" : "⟦⟧"));
      }
      const fold = folds.find(([from]) => from === start);
      if (fold) {
        const button = make("button", "fold", `… ${count(fold[1] - fold[0], "character")} …`);
        const rest = make("span", "");
        button.type = "button";
        rest.hidden = true;
        button.addEventListener("click", () => { rest.hidden = false; button.remove(); });
        paragraph.append(button, rest);
        into = rest;
      }
      if (i + 1 === points.length) return;
      const end = points[i + 1];
      const shown = characters.slice(start, end).join("");
      const mark = marks.find(([from, to]) => from < end && to > start);
      while (next < inside.length && inside[next][1] <= start) next += 1;
      const own = next < inside.length && inside[next][0] <= start ? inside[next] : null;
      if (own) into.append(token(shown, own[2], own[1] === end, mark ? mark[2] : ""));
      else if (mark) {
        const run = make("span", "error", shown);
        run.title = `marked: ${mark[2]}`;
        into.append(run);
      } else into.append(shown);
    });
    paragraph.append(...extra(characters.length, "∎"));
    return paragraph;
  };

  // ---------------------------------------------------------------- a test

  const scored = (score) => score && score.sum !== null;
  const MARKS = { passed: "✓ ", failed: "✗ ", "failed, equal": "✗ ", "not scored": "" };

  const fieldsOf = (fields) => {
    const list = make("dl", "fields");
    for (const [name, text] of fields) {
      const value = make("dd", "words", text);
      value.dir = "auto";
      list.append(make("dt", "", name), value);
    }
    return list;
  };

  const outcomesOf = (test, scores, places) => {
    const head = ["Model", "Outcome", "Margin per token", "in all", "per byte", "Better", "Worse"];
    const cells = head.map((name, i) => Object.assign(make("th", i < 2 ? "text" : "", name), { scope: "col" }));
    const body = make("tbody", "");
    test.section.models.forEach((model, k) => {
      const pair = places.map((at) => scores[k][at]);
      const whole = pair.every(scored);
      const differ = (divide, digits) => (whole ? signed(divide(pair[0]) - divide(pair[1]), digits) : "–");
      const mean = (score) => (scored(score) ? `${(score.sum / score.tokens).toFixed(3)} (${count(score.tokens, "token")})` : "–");
      const name = Object.assign(make("th", model.length > 16 ? "text wide" : "text", model), { scope: "row" });
      const said = test.section.outcome[k][test.i];
      const outcome = make("td", "text", MARKS[said] + said);
      outcome.classList.toggle("lost", said.startsWith("failed"));
      const values = [signed(test.section.margin[k][test.i]), differ((s) => s.sum, 2), differ((s) => s.sum / Math.max(s.bytes, 1), 4)];
      body.append(make("tr", "", name, outcome, ...[...values, ...pair.map(mean)].map((value) => make("td", "", value))));
    });
    const table = make("table", "outcomes", make("thead", "", make("tr", "", ...cells)), body);
    const box = make("div", "scroll", table);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Outcomes of test ${test.section.id[test.i]}`);
    return box;
  };

  const articleOf = (test, { fields, texts, marks, scores, tokens, words }, chosen) => {
    const { section, i } = test;
    const places = [section.high[i], section.low[i]];
    const title = make("h3", "", make("span", "tag", section.category[i]), " ");
    if (section.detail[i]) title.append(make("span", "tag light", section.detail[i]), " ");
    title.append(make("small", "", `${section.task}, test ${section.id[i]}`));
    const article = make("article", "example", title, outcomesOf(test, scores, places));
    const said = words[section.id[i]] || [];
    if (said.length) article.append(make("details", "", make("summary", "", "What was answered"), fieldsOf(said)));
    const long = fields.filter(([, text]) => text.length > LONG);
    const short = fields.filter((field) => !long.includes(field));
    if (short.length) article.append(fieldsOf(short));
    const edits = differences(...places.map((one) => texts[one])) || [null, null];
    // One pair of candidates for each model whose tokens are shown; one without colours where there are none.
    let views = section.models.map((model, k) => k).filter((k) => tokens[k][places[0]] || tokens[k][places[1]]);
    if (chosen !== "*") views = views.filter((k) => section.models[k] === chosen);
    const grid = make("div", "views");
    for (const k of views.length ? views : [null]) {
      const view = make("div", "view");
      if (k !== null) view.append(make("h4", "", "Tokens of ", make("span", "whole", section.models[k])));
      places.forEach((one, side) => {
        const own = k === null ? null : tokens[k][one];
        view.append(make("div", `candidate ${side ? "low" : "high"}`, make("h4", "", side ? "Worse" : "Better"),
          painted(texts[one], edits[side], marks[one], own)));
      });
      grid.append(view);
    }
    article.append(grid);
    if (long.length) {
      article.append(make("details", "", make("summary", "", long.map(([name]) => name).join(", ")), fieldsOf(long)));
    }
    return article;
  };

  // ---------------------------------------------------------------- which tests

  const passes = (outcome) => outcome === "passed";

  // Return the numbers of the models whose outcome of a test is the one that is asked for.
  const modelsOf = (test, asked) => {
    const { models, outcome } = test.section;
    const of = (k) => outcome[k][test.i];
    const every = models.map((model, k) => k).filter((k) => of(k) !== "not scored");
    const mine = (asked.outcome === "" && !asked.against ? models.map((model, k) => k) : every)
      .filter((k) => (!asked.model || models[k] === asked.model)
        && (!asked.outcome || passes(of(k)) === (asked.outcome === "passed")));
    if (!asked.against) return mine;
    const rivals = every.filter((k) => asked.against === "*" || models[k] === asked.against);
    return mine.filter((k) => rivals.some((rival) => passes(of(rival)) !== passes(of(k))));
  };

  const ORDERS = { worst: (margin) => margin, best: (margin) => -margin, close: Math.abs };

  const found = async (tests, asked, stillAsked) => {
    const words = asked.search.toLowerCase().split(/\s+/).filter(Boolean);
    const results = [];
    for (const test of tests) {
      const { section, i } = test;
      if (asked.task && section.task !== asked.task) continue;
      if (asked.category && section.category[i] !== asked.category) continue;
      const models = modelsOf(test, asked);
      if (!models.length) continue;
      if (words.length) {
        const prompt = await promptOf(test);
        if (!stillAsked()) return [];
        const sides = [section.high[i], section.low[i]].map((one) => prompt.texts[one]);
        const texts = [section.id[i], section.category[i], section.detail[i], ...sides, ...prompt.fields.map(([, text]) => text)]
          .map((text) => text.toLowerCase());
        if (!words.every((word) => texts.some((text) => text.includes(word)))) continue;
      }
      const margins = models.map((k) => section.margin[k][i]).filter((margin) => margin !== null);
      const order = ORDERS[asked.order];
      results.push([margins.length && order ? Math.min(...margins.map(order)) : order ? Infinity : 0, test]);
    }
    return results.sort((one, other) => one[0] - other[0] || 0).map(([, test]) => test);
  };

  // ---------------------------------------------------------------- the list

  const start = async () => {
    const browse = document.getElementById("browse");
    if (!browse) return; // a page without tests
    const tests = (await piece(0)).flatMap((section) => section.id.map((id, i) => ({ section, i })));
    const form = browse.querySelector("form");
    const output = browse.querySelector("output");
    const list = browse.querySelector(".tests");
    const [before, after] = browse.querySelectorAll(".pages button");
    let [from, turn, shown] = [0, 0, []];
    const value = (name, otherwise = "") => form.elements[name]?.value ?? otherwise;

    const draw = async () => {
      const mine = ++turn;
      const part = shown.slice(from, from + PAGE);
      const chosen = value("tokens", "*");
      const articles = await Promise.all(part.map(async (test) => articleOf(test, await promptOf(test), chosen)));
      if (mine !== turn) return;
      list.replaceChildren(...articles);
      output.textContent = shown.length
        ? `${(from + 1).toLocaleString("en")} to ${(from + part.length).toLocaleString("en")} of ${count(shown.length, "test")}`
        : "No test is like this.";
      before.disabled = from === 0;
      after.disabled = from + PAGE >= shown.length;
    };
    const search = async () => {
      const mine = ++turn;
      const asked = Object.fromEntries(["task", "model", "outcome", "against", "category", "search"].map((name) => [name, value(name)]));
      output.textContent = "searching …";
      const result = await found(tests, { ...asked, order: value("order", "set") }, () => mine === turn);
      if (mine !== turn) return;
      shown = result;
      from = 0;
      await draw();
    };
    let timer = 0;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", (event) => {
      if (event.target.name === "numbers") list.classList.toggle("numbers", event.target.checked);
      else if (event.target.name === "tokens") draw();
      else if (event.target.name !== "search") search();
    });
    form.addEventListener("input", (event) => {
      if (event.target.name !== "search") return;
      clearTimeout(timer);
      timer = setTimeout(search, 200);
    });
    const turnTo = (place_) => { from = place_; draw().then(() => form.scrollIntoView()); };
    before.addEventListener("click", () => turnTo(Math.max(from - PAGE, 0)));
    after.addEventListener("click", () => turnTo(from + PAGE));
    await search();
    browse.hidden = false;
    performance.mark("nnd tests shown");
  };
  start().catch(() => { document.getElementById("old")?.removeAttribute("hidden"); });

  // On paper nothing can be unfolded.
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
