"""Can a category tell these models apart at all, or is it noise? By which measure, and with how few prompts?"""
