"""Run by `python3 -m unittest`: an ordinary Python, no WebAssembly."""

import datetime
import unittest

from sluice_plugin import DATE, INT64, STRING, TIMESTAMP, TIMESTAMP_NTZ, ConfigError, Missing, Unsupported
from sluice_plugin.testing import Host, run, table
from transform import PersonKey, folded, person

PEOPLE = table(id=INT64, first_name=STRING, last_name=STRING, born=DATE, city=STRING)
CONFIG = {"first": "first_name", "last": "last_name", "born": "born", "key": "pii"}
DAY = datetime.date(1970, 1, 31)


def apply(firsts, lasts, days, people=PEOPLE, **config):
    rows = {"id": list(range(len(firsts))), "first_name": firsts, "last_name": lasts, "born": days}
    with Host():
        return run(PersonKey, people, {**CONFIG, **config}, rows)


class Names(unittest.TestCase):
    def test_one_name_has_one_form_however_it_is_written(self):
        for name in ["Jürgen", "JUERGEN", "ju\u0308rgen", " Jürgen. ", "ＪÜＲＧＥＮ"]:
            with self.subTest(name):
                self.assertEqual(folded(name), ["juergen"])
        self.assertEqual(folded("O'Neill"), folded("O\u2019Neill"))
        self.assertEqual(folded("Łukasz Đorđević"), ["lukasz", "dordevic"])
        self.assertEqual(folded("Strauß-Søndergård"), ["strauss", "soendergaard"])
        self.assertEqual(folded("İbrahim Işık"), ["ibrahim", "isik"])
        self.assertEqual(folded("Ελένη"), ["ελενη"])
        self.assertEqual(folded("12 / --"), [])

    def test_the_parts_of_a_person_are_told_apart(self):
        self.assertEqual(person("Anna Mária", "Kiss", DAY, "first"), "anna|kiss|1970-01-31")
        self.assertEqual(person("Anna Mária", "Kiss", DAY, "all"), "annamaria|kiss|1970-01-31")
        self.assertNotEqual(person("Ann", "Akiss", DAY, "all"), person("Anna", "Kiss", DAY, "all"))
        self.assertEqual(person("Anna", "Kiss Nagy", DAY, "first"), person("Anna", "Kiss-Nagy", DAY, "first"))

    def test_what_is_not_known_wholly_is_nobody(self):
        for first, last, born in [(None, "Kiss", DAY), ("Anna", None, DAY), ("Anna", "Kiss", None), ("?", "Kiss", DAY)]:
            with self.subTest(first=first, last=last, born=born):
                self.assertIsNone(person(first, last, born, "first"))


class Columns(unittest.TestCase):
    def test_the_same_person_has_the_same_key(self):
        result = apply(
            ["Jürgen", "JUERGEN Karl", "Jürgen", None], ["Müller", "Mueller", "Müller", "Müller"], [DAY, DAY, datetime.date(1970, 2, 1), DAY]
        )
        one, same, other, nobody = result["person_key"]
        # printf 'person\0juergen|mueller|1970-01-31' | openssl dgst -sha256 -hmac 'secret of pii'
        self.assertEqual(one, "15894cc116398baf3912fde546d1b883")
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)
        self.assertIsNone(nobody)

    def test_the_columns_that_it_is_made_of_are_dropped_unless_they_are_to_pass(self):
        def names(**config):
            return [output.name for output in apply([], [], [], **config).plan.outputs]

        self.assertEqual(names(), ["id", "city", "person_key"])
        self.assertEqual(
            names(names="pass", into="who"), ["id", "first_name", "last_name", "born", "city", "who"]
        )

    def test_of_a_moment_the_date_counts(self):
        people = table(id=INT64, first_name=STRING, last_name=STRING, born=TIMESTAMP_NTZ)
        moment = datetime.datetime(1970, 1, 31, 23, 59, 59, 999999)
        self.assertEqual(
            apply(["Anna"], ["Kiss"], [moment], people)["person_key"], apply(["Anna"], ["Kiss"], [DAY])["person_key"]
        )


class Configurations(unittest.TestCase):
    def refused(self, kind, people=PEOPLE, **config):
        given = {key: value for key, value in {**CONFIG, **config}.items() if value is not None}
        with self.assertRaises(kind) as raised:
            run(PersonKey, people, given, {})
        return str(raised.exception)

    def test_mistakes_are_named(self):
        self.assertEqual(self.refused(ConfigError, key=None), "`key` is missing")
        self.assertEqual(self.refused(ConfigError, gvien="all"), "unknown key `gvien`, did you mean `given`?")
        self.assertEqual(self.refused(ConfigError, names="dorp"), "names: did you mean `drop`?")
        self.assertEqual(self.refused(ConfigError, last="first_name"), "`first`, `last` and `born` are to be three columns")
        self.assertEqual(self.refused(ConfigError, into="City"), "into: the table has a column `City` already")
        self.assertEqual(self.refused(Missing, first="given_name"), "the table has no column given_name")
        self.assertEqual(self.refused(Unsupported, first="id"), "column id: it is bigint, and names are texts")
        zoned = table(first_name=STRING, last_name=STRING, born=TIMESTAMP)
        self.assertEqual(
            self.refused(Unsupported, zoned), "column born: it is timestamp, and not a date; cast it with `map` before"
        )


if __name__ == "__main__":
    unittest.main()
