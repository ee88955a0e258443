-- Closed loop: every connection sends its next request as soon as the last one was answered, as wrk does by itself.
-- KEEP_ALIVE=no opens a new connection for each request, as the paper's load generator does.

package.path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "?.lua;" .. package.path
local report = require("report")

if os.getenv("KEEP_ALIVE") == "no" then
  wrk.headers["Connection"] = "close"
end

setup, response, done = report.setup, report.response, report.done
