-- Closed loop with think time: after an answer, each connection waits before its next request. The waits are exponential with
-- mean THINK_MS (milliseconds, default 500), so that the requests do not march in step.

package.path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "?.lua;" .. package.path
local report = require("report")

local mean = tonumber(os.getenv("THINK_MS") or "500")
assert(mean and mean >= 0 and mean <= 3600000, "THINK_MS must be a number of milliseconds, 0 to 3600000")

function init()
  -- Each thread has a Lua of its own; the address of a table differs between them.
  math.randomseed(os.time() + tonumber(tostring({}):match("0x(%x+)"), 16) % 1000003)
end

-- wrk asks before each request how many milliseconds to wait.
function delay()
  return math.floor(-mean * math.log(1 - math.random()))
end

setup, response, done = report.setup, report.response, report.done
