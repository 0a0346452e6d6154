local before = '' -- see serverguard.lua; this script works on every server
