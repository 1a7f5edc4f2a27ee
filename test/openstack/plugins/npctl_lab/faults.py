"""Faults that tests set as rules in the file $NPCTL_LAB_FAULTS.

Every operation reads the file, so no process needs a restart. It contains a
list; the first rule that matches applies. README.md describes the rules.
"""
import fcntl
import fnmatch
import json
import os
import time


class Failure(Exception):
    """A rule makes the operation fail."""


class Abort(Failure):
    """A rule makes the operation fail without a retry on another host."""


def apply(on, **subject):
    """Applies the first rule for this operation and this subject.

    subject contains the values that a rule can match: name, flavor, host. It
    returns after the delay, or immediately without a rule, or raises Failure or
    Abort.
    """
    rule = take(on, **subject)
    if rule is None:
        return
    action = rule.get('action', 'error')
    if action in ('delay', 'hang'):
        wait(rule)
    elif action == 'abort':
        raise Abort('npctl lab: %s is to be aborted' % on)
    else:
        raise Failure('npctl lab: %s is to fail' % on)


def wait(rule):
    """Waits for the seconds of the rule; action hang waits until the rule is gone."""
    if rule.get('action') != 'hang':
        time.sleep(rule.get('seconds', 5))
        return
    while rule in rules():
        time.sleep(0.2)


def take(on, **subject):
    """Returns the rule that applies, or None, and counts its use."""
    for rule in rules():
        if rule.get('on') == on and _matches(rule, subject) and _count(rule):
            return rule
    return None


def rules():
    try:
        with open(os.environ['NPCTL_LAB_FAULTS']) as f:
            return json.load(f)
    except (KeyError, OSError, ValueError):
        return []


def _matches(rule, subject):
    return all(fnmatch.fnmatchcase(subject.get(key) or '', rule[key])
               for key in ('name', 'flavor', 'host') if rule.get(key))


def _count(rule):
    """Returns whether the rule has not reached its number of "times"."""
    key = rule.get('id') or json.dumps(rule, sort_keys=True)
    with open(os.environ['NPCTL_LAB_FAULTS'] + '.used', 'a+') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        used = f.read().splitlines().count(key)
        if rule.get('times') and used >= rule['times']:
            return False
        f.write(key + '\n')
        return True
