"""Calls a function of the page's program: python3 psycopg_driver.py FUNCTION ORDER"""
import os
import sys

import orders
import psycopg

with psycopg.connect(host=os.environ["DB_HOST"], port=os.environ["DB_PORT"], dbname=os.environ["DB_NAME"],
                     user=os.environ["DB_USER"], password=os.environ["DB_PASSWORD"]) as db:
    getattr(orders, sys.argv[1])(db, int(sys.argv[2]))
