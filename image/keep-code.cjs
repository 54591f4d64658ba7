'use strict'
/** Starts what its arguments say, and at a message, the path of a file, writes there what V8 has compiled until then. */
const { writeFileSync } = require('node:fs')
const { setFlagsFromString } = require('node:v8')

const script = require(process.env.PORTICO_START)
process.once('message', (file) => {
  // A gateway that has settled has switched this on, and V8 takes no code that was made under other flags.
  setFlagsFromString('--no-expose-gc')
  writeFileSync(file, script.createCachedData())
  process.exit(0)
})
