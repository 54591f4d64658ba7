'use strict'
/**
 * Starts the command in its arguments. At a message, which is the path of a file, it writes the code that V8 has
 * compiled so far to that file.
 */
const { writeFileSync } = require('node:fs')
const { setFlagsFromString } = require('node:v8')

const script = require(process.env.PORTICO_START)
process.once('message', (file) => {
  // The started command has changed V8's flags, and V8 rejects code that was compiled under other flags than its own.
  for (const flag of process.env.PORTICO_FLAGS_BACK.split(' ')) setFlagsFromString(flag)
  writeFileSync(file, script.createCachedData())
  process.exit(0)
})
