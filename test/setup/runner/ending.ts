/** Not a test of its own: a test file that doesn't end, as PORTICO_ENDING says (runner.test.ts). */
import { createServer } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const ending = process.env['PORTICO_ENDING']

test.before(() => {
  if (ending !== 'soon') createServer().listen(0, '127.0.0.1')
  if (ending === 'deaf') process.removeAllListeners('SIGUSR2')
  if (ending === 'before') throw new Error('nothing can be tested')
})

test('something', () => {
  console.log('progress: half of it is done')
  console.log('what else is told')
  assert.is(ending === 'failed', false)
})

test.run()
