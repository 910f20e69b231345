# SPDX-License-Identifier: GPL-2.0
"""Which programs a shell script calls: the words in a command's place."""

import re

# Words after which a command comes, and others of the shell's.
OPENING = {"if", "then", "else", "elif", "do", "while", "until", "!", "{",
           "exec", "command", "env", "nice"}
CLOSING = {"fi", "done", "esac", "}", "case", "for"}
BUILTIN = {":", ".", "[", "break", "cd", "continue", "echo", "eval", "exit",
           "export", "false", "getopts", "kill", "local", "printf", "pwd",
           "read", "readonly", "return", "set", "shift", "test", "trap",
           "true", "type", "ulimit", "umask", "unset", "wait"}
TOKEN = re.compile(r"""
    (?P<blank>[ \t]+|\\\n|(?<![^\s;&|()])\#[^\n]*) |
    (?P<redirect>[0-9]*(?:<<-?|>>|<>|>\||>&|<&|>|<)) |
    (?P<operator>\n|;;|;|&&|&|\|\||\||\(|\)) |
    (?P<word>(?:\\.|'[^']*'|"(?:\\.|\$\((?:[^()]|\([^()]*\))*\)|[^"\\])*"|\$\{[^}]*\}|
        \$\(\((?:[^)]|\)(?!\)))*\)\)|[^\s;&|()<>'"\\$]|\$(?!\())+)
""", re.VERBOSE | re.DOTALL)
ASSIGNMENT = re.compile(r"\w+=")
INSIDE = re.compile(r"\$\((?!\()|`")


class Script:
    """Reads a script word by word; `called` has what stands in command place."""

    def __init__(self, text):
        self.called, self.defined = set(), set()
        self.tokens = []
        self._split(text)
        self._read()

    def programs(self):
        """Calls that the shell neither knows itself nor defines here."""
        return {word for word in self.called - self.defined - BUILTIN
                if re.fullmatch(r"[a-z][\w.+-]*", word)}

    def _split(self, text):
        at = 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                # "$(" outside quotes: what follows is a command
                at += len("$(") if text.startswith("$(", at) else 1
                self.tokens.append(("operator", "("))
                continue
            at = match.end()
            if match.lastgroup == "blank":
                continue
            self.tokens.append((match.lastgroup, match.group()))
            if match.lastgroup == "word" and match.group()[0] != "'":
                self._inside(match.group())

    def _inside(self, word):
        """Commands that put their output into a word."""
        for part in INSIDE.finditer(word):
            inner = Script(_balanced(word[part.end():]))
            self.called |= inner.called

    def _read(self):
        place, skip, pattern, case = True, False, False, False
        for number, (kind, text) in enumerate(self.tokens):
            if kind == "redirect":
                skip = True
            elif kind == "operator":
                pattern, place = self._operator(text, pattern)
                # After a function's brackets comes its body.
                place = place or self.tokens[number - 1:number + 1] == [
                    ("operator", "("), ("operator", ")")]
                skip = False
            elif skip:
                skip = False
            elif pattern or (case and text == "in"):
                pattern, case = text != "esac", False
            elif place:
                place = self._command(number, text)
                case = case or text == "case"

    @staticmethod
    def _operator(text, pattern):
        if pattern:
            return text != ")", text == ")"
        return text == ";;", text != ")"

    def _command(self, number, text):
        """Take a word in a command's place; is the next one in one, too?"""
        if text in OPENING or ASSIGNMENT.match(text):
            return True
        after = [word for _, word in self.tokens[number + 1:number + 3]]
        if after == ["(", ")"]:
            self.defined.add(text)
        elif text not in CLOSING:
            self.called.add(text.strip("\"'"))
        return False


def _balanced(text):
    """The text up to the bracket that ends it."""
    depth = 1
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[:at]
    return text


def programs(*texts):
    """What scripts call that source one another."""
    scripts = [Script(text) for text in texts]
    defined = {name for script in scripts for name in script.defined}
    return {name for script in scripts for name in script.programs()} - defined
