"""Creates the content of the cloud that up.sh has started: fill.py identity|contents|ready|quota …

Every step creates only missing objects, so it can run again.
"""
import sys


def main(step, *args):
    # one SDK import per step, to load only the required modules
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
