/** Checks that an error caused by unreachable backends names them. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Backend, unreachable } from '../../../../dataplane/gateway/backends/backend/backend.ts'
import { startGateway } from '../../../support/gateway/gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { freePort } from '../../../support/network/free-port.ts'

const errorFor = (...names: string[]) => unreachable(names.map((name) => ({ name })) as unknown as Backend[]).message

test('one, some and many unreachable backends are named in the error', () => {
  assert.is(errorFor('a'), 'The backend "a" can’t be reached.')
  assert.is(errorFor('a', 'b'), 'The backends "a" and "b" can’t be reached.')
  assert.is(errorFor('a', 'b', 'c'), 'The backends "a", "b" and "c" can’t be reached.')
  const many = errorFor(...Array.from({ length: 13 }, (_, index) => `b${index}`))
  assert.is(
    many,
    'The backends "b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9" and 3 more can’t be reached.',
  )
  assert.is(unreachable([]).code, 'backend_unavailable')
})

test('a tool that only a never reached backend could have is unavailable', async () => {
  const url = `http://127.0.0.1:${await freePort()}/mcp`
  const gateway = await startGateway({
    backends: [
      { name: 'one', url },
      { name: 'two', url },
    ],
  })
  try {
    const session = await openSession(gateway.url)
    for (const { json } of [
      await postModern(gateway.url, 'tools/call', { name: 'two_t', arguments: {} }),
      await post(gateway.url, rpc('tools/call', { name: 'two_t', arguments: {} }), session),
    ])
      assert.is(json.error.message, 'The backend "two" can’t be reached.')
  } finally {
    await gateway.close()
  }
})

test.run()
