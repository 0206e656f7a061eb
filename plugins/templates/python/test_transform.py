"""Run by `python3 -m unittest`: an ordinary Python, no WebAssembly."""

import unittest

from sluice_plugin import INT64, STRING, ConfigError, Missing, Operation, Unsupported
from sluice_plugin.testing import Host, run, table
from transform import {{class_name}}, masked, normalise

PEOPLE = table(id=INT64, phone=STRING, city=STRING)


def apply(phones, **config):
    rows = {"id": list(range(len(phones))), "phone": phones, "city": ["Bern"] * len(phones)}
    with Host():
        return run({{class_name}}, PEOPLE, {"columns": ["phone"], **config}, rows)


class Numbers(unittest.TestCase):
    def test_one_number_has_one_form_however_it_is_written(self):
        for text in [
            "079 123 45 67",
            "0791234567",
            "+41 79 123 45 67",
            "0041 79 123 45 67",
            "+41 (0)79 123 45 67",
            "+41(0)79/123-45-67",
            "(079) 123.45.67",
            "+41\u00a079\u00a0123\u00a045\u00a067",
            "079\u2013123\u201345\u201367",
        ]:
            with self.subTest(text):
                self.assertEqual(normalise(text, "CH"), "+41791234567")

    def test_a_number_without_a_country_is_of_the_configured_one(self):
        self.assertEqual(normalise("030 901820", "DE"), "+4930901820")
        self.assertEqual(normalise("01 58858-0", "AT"), "+431588580")
        # Liechtenstein has no 0 before its numbers; its neighbours dial +423.
        self.assertEqual(normalise("+423 236 60 00", "CH"), "+4232366000")
        self.assertEqual(normalise("+1 202-456-1414", "CH"), "+12024561414")

    def test_what_is_no_number_has_no_form(self):
        for text in ["ask Anna", "079 123 45", "079 123 45 678", "791234567", "+41 79 123 45 67 ext 3", "0", "+", "+0791234567"]:
            with self.subTest(text):
                self.assertIsNone(normalise(text, "CH"))

    def test_the_middle_is_masked(self):
        self.assertEqual(masked("+41791234567", 2, 2), "+4179*****67")
        self.assertEqual(masked("+41791234567", 0, 0), "+41*********")

    def test_a_short_number_shows_its_calling_code_only(self):
        self.assertEqual(masked("+49309018", 2, 2), "+49******")


class Columns(unittest.TestCase):
    def test_other_columns_pass_and_null_stays_null(self):
        result = apply(["079 123 45 67", None, "  "])
        self.assertEqual(result["phone"], ["+4179*****67", None, None])
        self.assertEqual(result["id"], [0, 1, 2])
        self.assertEqual([output.name for output in result.plan.outputs], ["id", "phone", "city"])

    def test_equal_numbers_have_equal_tokens(self):
        result = apply(["079 123 45 67", "+41 79 123 45 67", "079 123 45 68", None], key="pii")
        first, second, third, none = result["phone_token"]
        # printf 'phone\0+41791234567' | openssl dgst -sha256 -hmac 'secret of pii'
        self.assertEqual(first, "ffc029d16dd56f88336f3b87628ec8bd")
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        self.assertIsNone(none)
        self.assertEqual([output.name for output in result.plan.outputs], ["id", "phone", "phone_token", "city"])

    def test_a_row_whose_text_is_no_number_is_rejected_or_null(self):
        result = apply(["ask Anna", "079 123 45 67"])
        self.assertEqual(result.rejects, [(0, "phone", "not-a-phone-number")])
        self.assertEqual(result["id"], [1])
        self.assertEqual(apply(["ask Anna"], invalid="null")["phone"], [None])

    def test_an_empty_batch_is_nothing_special(self):
        self.assertEqual(apply([])["phone"], [])

    def test_a_delete_is_masked_as_an_insert_is(self):
        with Host():
            rows = {"phone": ["079 123 45 67"] * 2}
            result = run({{class_name}}, PEOPLE, {"columns": ["phone"]}, rows, [Operation.DELETE, Operation.INSERT])
        self.assertEqual(result["phone"], ["+4179*****67"] * 2)


class Configurations(unittest.TestCase):
    def refused(self, kind, **config):
        with self.assertRaises(kind) as raised:
            run({{class_name}}, PEOPLE, config, {})
        return str(raised.exception)

    def test_mistakes_are_named(self):
        self.assertEqual(
            self.refused(ConfigError, columns=["phone"], keep_lst=2), "unknown key `keep_lst`, did you mean `keep_last`?"
        )
        self.assertEqual(
            self.refused(ConfigError, columns=["phone"], keep_last=5), "keep_last: a whole number from 0 to 4 is expected"
        )
        self.assertEqual(self.refused(ConfigError), "`columns` is missing")
        self.assertEqual(self.refused(Missing, columns=["fone", "phone"]), "the table has no column fone")
        self.assertEqual(
            self.refused(Unsupported, columns=["id"]), "column id: it is bigint, and telephone numbers are texts"
        )


if __name__ == "__main__":
    unittest.main()
