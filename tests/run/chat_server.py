"""A small server of a chat API for tests: ``POST /v1/chat/completions``, over real HTTP, with answers that a test writes.

with ChatServer(lambda payload: "Answer: A") as server:
    nnd_tasks.evaluate(tasks, "local-chat-completions", {"model": "m", "base_url": server.url}, ...)
    server.payloads  # the requests, in the order of arrival
"""

from tests.run.local_server import DRIP, HANG_UP, LocalServer, Refusal

__all__ = ["DRIP", "HANG_UP", "ChatServer", "Refusal"]


class ChatServer(LocalServer):
    """Serve on a free port of this machine, as a context manager.

    Args:
        answer: gives the text of the answer to a request; None is null content, and all else is as for `LocalServer.respond`.

    Attributes:
        payloads: the requests, in the order of arrival.
    """

    path = "/v1/chat/completions"

    def __init__(self, answer):
        self.answer = answer
        self.payloads = []
        super().__init__()

    def respond(self, request):
        """Answer a request for a chat completion."""
        self.payloads.append(request)
        answer = self.answer(request)
        if not isinstance(answer, (str, type(None))):
            return answer
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"object": "chat.completion", "choices": [choice]}
