"""Calls a function of the page's program: python3 sqlite3_driver.py FUNCTION ORDER"""
import os
import sqlite3
import sys

import orders

db = sqlite3.connect(os.environ["DB_NAME"], timeout=30, isolation_level=None)
getattr(orders, sys.argv[1])(db, int(sys.argv[2]))
db.close()
