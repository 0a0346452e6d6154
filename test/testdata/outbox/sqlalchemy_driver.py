"""Calls a function of the page's program: python3 sqlalchemy_driver.py FUNCTION ORDER"""
import os
import sys

import orders
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

dsn = "sqlite:///" + os.environ["DB_NAME"]
if os.environ["DB_KIND"] == "mysql":
    dsn = "mysql+pymysql://{DB_USER}:{DB_PASSWORD}@{DB_HOST}:{DB_PORT}/{DB_NAME}".format_map(os.environ)
with Session(create_engine(dsn)) as session:
    getattr(orders, sys.argv[1])(session, int(sys.argv[2]))
