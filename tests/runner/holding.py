"""``nnd`` as a command that stops while it scores, to be killed."""

#: For ``python -c``: the number of the call of `_settle` at which it stops, then what follows ``nnd``. It makes the file
#: ``holding`` then, and writes how many requests it was asked into ``asked``.
HOLD = """
import sys, time
from pathlib import Path
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from nnd_tasks.cli import main

settle, score, seen, stop = SharedPrefixLM._settle, SharedPrefixLM._loglikelihood_tokens, [], int(sys.argv[1])
check = SharedPrefixLM._self_check

def checked(self):  # what the check of the model on itself scores does not count
    SharedPrefixLM._settle = settle
    try:
        return check(self)
    finally:
        SharedPrefixLM._settle = hold

def hold(self, *args):
    seen.append(1)
    if len(seen) == stop:
        Path("holding").touch()
        time.sleep(600)
    settle(self, *args)

def count(self, requests, *args, **kwargs):
    Path("asked").write_text(str(len(requests)))
    return score(self, requests, *args, **kwargs)

SharedPrefixLM._settle, SharedPrefixLM._loglikelihood_tokens, SharedPrefixLM._self_check = hold, count, checked
sys.argv = ["nnd", *sys.argv[2:]]
main()
"""
