"""What an lm-eval that reads the entry point ``lm_eval.tasks`` searches: the folder of all tasks, written by importing this.

It holds in a wheel as in an editable install. Whether the package's ``__path__``, its ``__file__`` or `importlib.resources` is
asked for its folder, the answer is that one.
"""

from importlib.machinery import SourceFileLoader

from nnd_tasks.task.task_files import write_task_folder

__path__ = [str(write_task_folder())]
__file__ = f"{__path__[0]}/__init__.py"
if __spec__ is not None:
    __spec__.loader = SourceFileLoader(__name__, __file__)
