"""Fills the cloud that up.sh has started: fill.py identity|contents|ready|quota …

Every step looks before it makes, so it may be run again.
"""
import sys


def main(step, *args):
    # one SDK import per step: the modules are loaded as they are needed
    if step == 'identity':
        import identity
        identity.fill()
    elif step == 'contents':
        import contents
        contents.fill()
    elif step == 'ready':
        import ready
        ready.wait()
    elif step == 'quota':
        import quota
        quota.run(*args)
    else:
        sys.exit(__doc__)


main(*sys.argv[1:])
