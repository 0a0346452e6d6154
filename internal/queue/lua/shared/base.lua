-- Code that every script shares: script.go puts the files of this folder in front of each script. KEYS[1] is the
-- bucket's prefix, "wk:{BUCKET}:"; every key of the bucket begins with it, so all of them are in one slot of a Cluster.
-- keys.go lists them.
--
-- A job's record is an entry of a page, a LIST of its topic's name and up to PAGE-1 records. A reference encodes the
-- place and the priority, ((page * PAGE) + index) * 4 + priority, and no place is ever used twice: a reference to a
-- removed job finds an empty entry or none, whatever has been pushed since.
--
-- Invariants that all scripts keep:
--   1. a live record is in exactly one of: an unopened page (pg:TOPIC), d:TOPIC, a ready list, lease, x:TOPIC;
--   2. a ready list that is not empty has its topic either in the ring q:PRIORITY or in park, never in both; that of
--      a pull topic has it in neither;
--   3. due holds, for every topic with something to come, a time not later than its next event;
--   4. nd, nr, nu and nx count the live jobs of each topic by state, and of each namespace;
--   5. in t:TOPIC, p = d + x + o + y + the live jobs (see TOTALS). A namespace counts for all of its topics.
local P = KEYS[1]
local call = redis.call
local floor = math.floor
local T = call('TIME')
local now = T[1] * 1000 + floor(T[2] / 1000)
local SLOT = 60000    -- a page of jobs that are not near holds one minute of one topic
local LEAD = 60000    -- and is opened this long before that minute begins
local PAGE = 1024
local FLAGS = 64      -- flags of a record are below this
local LOCATORS = @LOCATORS@
local PARTS = @PARTS@ -- into how many hashes a small hash is split
local LONG = @LONG@   -- at how many locators on average
local THIN = @THIN@   -- delayed jobs that a thin topic has at most
local WINDOW = 32     -- calls in flight that a topic starts with
local GATED = 5000    -- after this at the latest a parked topic that waits for its own calls is checked again
local NOTCOMPARED = 'NOTCOMPARED this server has not been compared with the journals of the hosts yet'
local SWEEP = 60000   -- after this at the latest topics with jobs that expire are swept
local DAYS = 40       -- past days that t:TOPIC keeps
local SOME = 16       -- keys read at once
local PURGED = 5000   -- places of a ready list that are read to remove those of gone jobs
-- Adding this field makes Redis store a hash as a table, since it is too long for a listpack, which is searched from
-- its first field on.
local TABLE = string.rep('-', 65)
-- Counters in t:TOPIC: p pushed, d delivered, f failed attempts, r retries, z snoozes, x deleted, k died, e of those
-- expired, v dead ones redriven, o dead ones deleted, y replaced.
local TOTALS = 'pdfrzxkevoy'

-- What the script has read about topics and pages, and the changes that finish() writes once.
local topics, pageKeys, settings, confs = {}, {}, {}, {}
local known = {} -- delayed jobs of a topic, without the changes in counts
local splits, turn, parts -- see locators.lua
local counts, totals, events, readies = {}, {}, {}, {}
local happened = {} -- topics in totals
local freed = {}    -- by page: number of its records that are gone
local wakeTimers, wakeDispatchers = false, false
local told = {} -- pull topics that have jobs for waiting workers

-- The run id of the server that runs the script.
local function serverID() return string.match(call('INFO', 'server'), 'run_id:(%x+)') end

-- Takes n revisions and returns the first. Each change that a journal records gets one: of two changes of a job the
-- later one has the higher revision, through every restart and loss of data (see shards_compare.go).
local function revise(n) return call('INCRBY', P .. 'rev', n) - n + 1 end
