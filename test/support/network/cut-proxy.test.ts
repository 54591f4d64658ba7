import { spawnSync } from 'node:child_process'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

/** Cuts a connection whose ends are both closing, and ends. */
const CUT_WHILE_CLOSING = `
  const { connect, createServer } = await import('node:net')
  const { startCutProxy } = await import(${JSON.stringify(new URL('cut-proxy.ts', import.meta.url))})
  const target = createServer((socket) => socket.on('error', () => {}).end('all of it'))
  await new Promise((resolve) => target.listen(0, '127.0.0.1', resolve))
  const relay = await startCutProxy({ host: '127.0.0.1', port: target.address().port })
  const client = connect(relay.port).on('error', () => {})
  client.once('data', () => relay.cut())
  await new Promise((resolve) => client.once('close', resolve))
  await relay.close()
  target.close()
  console.log('over')
`

test('a process that cuts connections can end, whatever state they are in', () => {
  const options = { encoding: 'utf8', timeout: 20_000 } as const
  for (let round = 0; round < 5; round++) {
    const { signal, stdout, stderr } = spawnSync(process.execPath, ['-e', CUT_WHILE_CLOSING], options)
    assert.is(stdout, 'over\n', stderr)
    assert.is(signal, null)
  }
})

test.run()
