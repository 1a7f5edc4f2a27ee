"""Prints a token for a Zuul, like those of the login service of a site.

usage: make_token.py zuul.conf SUBJECT SECONDS
"""

import configparser
import sys
import time

import jwt

config = configparser.ConfigParser(interpolation=None)
config.read(sys.argv[1])
login = config['auth "test"']
now = int(time.time())
print(jwt.encode({"iss": login["issuer_id"], "aud": login["client_id"], "sub": sys.argv[2], "iat": now - 3600,
                  "exp": now + int(sys.argv[3])}, login["secret"], algorithm="HS256"))
