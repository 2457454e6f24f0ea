from dataclasses import dataclass

import torch

from pcore.tasks import Contents, Layout, Symbol, Task
from pcore.vocab import BOUNDARY, make_vocab

SYMBOLS = "0123456"  # that a query has, drawn at random
EXTRA = ""  # that only an answer has, such as a sign
SEPARATOR = "+"  # between the strings of a query: one character, also where there is only one
NUM_STRINGS = 2  # of a query; all of them have the same length


@dataclass(frozen=True, kw_only=True)
class Base7(Task):
    """Add in base 7. The answer has its units first: 653+046=2301 stands for 1032."""

    def answer_length(self, length):  # to strings of this length
        return length + 1

    def answer(self, first, second):  # strings as typed; returns the answer as the model writes it
        carry, written = 0, ""
        for a, b in zip(reversed(first), reversed(second), strict=True):
            carry, digit = divmod(int(a) + int(b) + carry, 7)
            written += str(digit)
        return written + str(carry)

    # All tokens from left to right, and the relative ID of each: those with the same are coupled.
    def layout(self, shape):
        (length,), layout = shape, Layout()
        for string in range(NUM_STRINGS):
            for i in range(length):
                layout.add(Symbol(string, i), length - i)  # IDs from right to left: units have 1
            layout.add(SEPARATOR if string < NUM_STRINGS - 1 else "=", 0)
        layout.end_query()
        for i in range(self.answer_length(length)):
            layout.add(Symbol(NUM_STRINGS, i), i + 1)  # IDs from left to right: units have 1
        return layout

    # Below: how examples are drawn, read and numbered. It stays as it is as long as all strings of
    # a query have one length; else `layout`, `draw` and `parse` change, and `contents` if the
    # length of the first string does not decide those of the others.

    @property
    def vocab(self):  # symbols are numbered from 1 in this order; 0 is padding
        return make_vocab((*SYMBOLS, *EXTRA, SEPARATOR, "=", BOUNDARY))

    def draw(self, sizes, rng):  # random examples; sizes B 1: the length of the strings of each
        queries = []
        for length in sizes.flatten().tolist():
            shape = (NUM_STRINGS, length)
            drawn = torch.randint(len(SYMBOLS), shape, generator=rng, device=rng.device)
            queries.append(["".join(SYMBOLS[k] for k in string) for string in drawn.tolist()])
        return self.contents(queries, rng.device)

    def parse(self, query):  # the example that a user types
        strings = query.split(SEPARATOR)
        one_length = {len(string) for string in strings} == {len(strings[0]) or 1}
        if len(strings) != NUM_STRINGS or not one_length or set("".join(strings)) - set(SYMBOLS):
            form = SEPARATOR.join([SYMBOLS[:2]] * NUM_STRINGS)
            raise ValueError(f"needs {NUM_STRINGS} x {SYMBOLS}, of one length, as in {form}")
        return self.contents([strings])

    def contents(self, queries, device=None):  # fields: the strings of the query, then the answer
        longest = max(len(query[0]) for query in queries)
        width, rows = max(longest, self.answer_length(longest)), []
        for query in queries:
            answer, length = self.answer(*query), self.answer_length(len(query[0]))
            shown = f"{SEPARATOR.join(query)}={answer}"
            if len(answer) != length:
                raise ValueError(f"{shown}: answer_length says {length} symbols")
            if set(answer) - set(SYMBOLS + EXTRA):
                raise ValueError(f"{shown}: not all of the answer is in {SYMBOLS + EXTRA}")
            fields = [field.ljust(width, SYMBOLS[0]) for field in (*query, answer)]  # never shown
            rows.append([[self.vocab.index[symbol] for symbol in field] for field in fields])
        sizes = torch.tensor([[len(query[0])] for query in queries], device=device)
        return Contents(torch.tensor(rows, device=device), sizes)
