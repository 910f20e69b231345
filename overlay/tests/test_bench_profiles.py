# SPDX-License-Identifier: GPL-2.0
"""Who has called whom is told from what ran, and every instruction is in a stack."""

import unittest

from bench import profiles

# Each function is of 0x100 bytes.
FUNCTIONS = ("entry_SYSCALL_64", "asm_common_interrupt", "irq_entries_start",
             "irq", "outer", "inner", "leaf", "cold", "schedule", "__switch_to",
             "other")
MAP = "".join(f"{0xffffffff81000000 + 0x100 * number:x} T {name}\n"
              for number, name in enumerate(FUNCTIONS))


def address(place):
    """The address of FUNCTION+OFFSET; "user" is a program's."""
    name, _, offset = place.partition("+")
    base = 0x401000 if name == "user" else \
        0xffffffff81000000 + 0x100 * FUNCTIONS.index(name)
    return base + int(offset or "0", 16)


class Stacks(unittest.TestCase):

    def fold(self, *ran):
        """The stacks of blocks, each "PLACE [END] [*TIMES]" of two instructions.

        They are 4 bytes long together, so a call at +0 returns to +4.
        """
        raw, words = [], []
        for number, block in enumerate(ran):
            place, *rest = block.split()
            end = next((word for word in rest if word[0] != "*"), "-")
            times = next((word for word in rest if word[0] == "*"), "")
            at = address(place)
            raw.append(f"block {number} {end} {at + 4:x} {at:x} {at + 2:x}")
            words.append(f"{number}{times}")
        raw += ["round", f"sums {' '.join(words)}", f"ran {' '.join(words)}"]
        table = profiles.symbols(MAP)
        (found,), blocks = profiles.rounds_of(
            "\n".join(raw), lambda at: profiles.function_at(table, at))
        folded = profiles.fold(found.ran, blocks)
        self.assertEqual(profiles.by_function(folded), found.functions)
        return {";".join(stack): number for stack, number in folded.items()}

    def test_calls_and_returns(self):
        self.assertEqual(self.fold(
            "user", "entry_SYSCALL_64 call", "outer call", "inner", "inner+4 call",
            "leaf ret", "inner+8 ret", "outer+4 ret", "entry_SYSCALL_64+4",
            "user+4"), {
                "[user space]": 4, "entry_SYSCALL_64": 4,
                "entry_SYSCALL_64;outer": 4, "entry_SYSCALL_64;outer;inner": 6,
                "entry_SYSCALL_64;outer;inner;leaf": 2})

    def test_a_jump_to_a_function_takes_the_place_of_the_caller(self):
        self.assertEqual(self.fold(
            "outer call", "inner", "leaf ret", "outer+4"), {
                "outer": 4, "outer;inner": 2, "outer;leaf": 2})

    def test_a_block_may_run_into_another_function(self):
        self.assertEqual(self.fold("outer call", "inner+fe ret", "outer+4"), {
            "outer": 4, "outer;inner": 1, "outer;leaf": 1})

    def test_a_function_that_calls_itself(self):
        self.assertEqual(self.fold(
            "outer call", "inner call *3", "leaf ret", "inner+4 ret *3",
            "outer+4"), {
                "outer": 4, "outer;inner": 4, "outer;inner;inner": 4,
                "outer;inner;inner;inner": 4, "outer;inner;inner;inner;leaf": 2})

    def test_a_loop(self):
        self.assertEqual(self.fold("outer call", "inner *5", "inner+4 ret",
                                   "outer+4"), {"outer": 4, "outer;inner": 12})

    def test_an_interrupt_is_a_stack_of_its_own(self):
        interrupt = ("irq_entries_start+20", "asm_common_interrupt call", "irq ret",
                     "asm_common_interrupt+4 iret")
        where = {"irq_entries_start": 2, "asm_common_interrupt": 4,
                 "asm_common_interrupt;irq": 2}
        plain = {"outer": 4, "outer;inner": 4}
        for at in range(1, 4):
            ran = ["outer call", "inner", "inner+4 ret", "outer+4"]
            ran[at:at] = interrupt
            self.assertEqual(self.fold(*ran), plain | where)

    def test_interrupts_in_a_row_and_in_each_other(self):
        first = ("asm_common_interrupt call", "irq ret",
                 "asm_common_interrupt+4 iret")
        inner = ("asm_common_interrupt call", "irq", *first, "irq+4 ret",
                 "asm_common_interrupt+4 iret")
        for interrupts, own, irq in (((*first, *first), 8, 4), (inner, 8, 6)):
            self.assertEqual(self.fold("outer call", *interrupts, "inner ret",
                                       "outer+4"), {
                "outer": 4, "outer;inner": 2, "asm_common_interrupt": own,
                "asm_common_interrupt;irq": irq})

    def test_what_an_exception_has_broken_off_goes_on(self):
        # The second instruction of a block that ends with a call.
        self.assertEqual(self.fold(
            "outer call", "asm_common_interrupt iret", "outer+2 call", "inner ret",
            "outer+6"), {"outer": 6, "outer;inner": 2, "asm_common_interrupt": 2})
        self.assertEqual(self.fold("outer call", "outer+2 call", "inner ret",
                                   "outer+6"), {"outer": 6, "outer;inner": 2})

    def test_an_interrupt_of_a_program(self):
        self.assertEqual(self.fold(
            "user", "asm_common_interrupt iret", "user", "entry_SYSCALL_64",
            "user"), {"[user space]": 6, "asm_common_interrupt": 2,
                      "entry_SYSCALL_64": 2})

    def test_the_callers_of_another_task_are_not_known(self):
        # Both have called what switches at the same place.
        self.assertEqual(self.fold(
            "outer call", "schedule call", "__switch_to ret", "schedule+4 ret",
            "other+4 call", "leaf ret", "other+8"), {
                "outer": 2, "outer;schedule": 2, "outer;schedule;__switch_to": 2,
                "schedule": 2, "other": 4, "other;leaf": 2})

    def test_a_return_out_of_several_functions(self):
        self.assertEqual(self.fold("outer call", "inner call", "leaf ret",
                                   "outer+4"),
                         {"outer": 4, "outer;inner": 2, "outer;inner;leaf": 2})

    def test_each_window_begins_anew(self):
        raw = ("round\nblock 1 call ffffffff81000404 ffffffff81000400\nsums 1\n"
               "ran 1\nround\nblock 2 - ffffffff81000602 ffffffff81000600\n"
               "sums 2\nran 2\n")
        table = profiles.symbols(MAP)
        windows, blocks = profiles.rounds_of(
            raw, lambda at: profiles.function_at(table, at))
        whole = sum(windows, profiles.Round())
        self.assertEqual(whole.total(), 2)
        self.assertEqual(profiles.fold(whole.ran, blocks),
                         {("outer",): 1, ("leaf",): 1})


if __name__ == "__main__":
    unittest.main()
