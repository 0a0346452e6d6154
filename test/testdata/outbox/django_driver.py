"""Calls a function of the page's program: python3 django_driver.py FUNCTION ORDER"""
import os
import sys

from django.conf import settings

settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DB_NAME"], "OPTIONS": {"timeout": 30},
}})

import orders  # noqa: E402, it needs the settings

getattr(orders, sys.argv[1])(int(sys.argv[2]))
