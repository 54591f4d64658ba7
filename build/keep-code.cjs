'use strict'
/** Starts what its arguments say, and at a message, the path of a file, writes there what V8 has compiled until then. */
const { writeFileSync } = require('node:fs')
const { setFlagsFromString } = require('node:v8')

const script = require(process.env.PORTICO_START)
process.once('message', (file) => {
  // What has started has set flags for itself, and V8 takes no code that was made under other flags than it was given.
  for (const flag of process.env.PORTICO_FLAGS_BACK.split(' ')) setFlagsFromString(flag)
  writeFileSync(file, script.createCachedData())
  process.exit(0)
})
