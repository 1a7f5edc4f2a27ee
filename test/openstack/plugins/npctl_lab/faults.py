"""Faults that tests ask for, as rules in the file $NPCTL_LAB_FAULTS.

The file is read at every question, so no process is restarted for it. It holds
a list; the first rule that matches acts. README.md describes the rules.
"""
import fcntl
import fnmatch
import json
import os
import time


class Failure(Exception):
    """A rule says that the work fails."""


class Abort(Failure):
    """A rule says that it fails for good: no other host is to be tried."""


def apply(on, **subject):
    """Does what the first rule for this deed and this subject says.

    subject holds what a rule can be narrowed by: name, flavor, host. Returns
    after the delay, or at once without a rule; raises Failure or Abort.
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
    """Waits until the rule is gone if it is to hang, else for its seconds."""
    if rule.get('action') != 'hang':
        time.sleep(rule.get('seconds', 5))
        return
    while rule in rules():
        time.sleep(0.2)


def take(on, **subject):
    """Returns the rule that applies, counting the use of it, or None."""
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
    """False when the rule has been used as many "times" as it may be."""
    key = rule.get('id') or json.dumps(rule, sort_keys=True)
    with open(os.environ['NPCTL_LAB_FAULTS'] + '.used', 'a+') as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        used = f.read().splitlines().count(key)
        if rule.get('times') and used >= rule['times']:
            return False
        f.write(key + '\n')
        return True
