/** The tables of the specification that one node covers: see `suites/`. Each of them can be run alone as well. */
import './suites/streams.ts'
import './suites/records.ts'
import './suites/replay.ts'
import './suites/claims.ts'
import './suites/deliveries.ts'
import './suites/dead-letters.ts'
import './suites/inspection.ts'
import './suites/audit.ts'
