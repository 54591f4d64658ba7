import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../../support/eventually.ts'
import {
  AUDIENCE,
  buildExchangingBackend,
  startExchangingGateway,
} from '../../../support/gateway/exchanging-gateway.ts'
import { openSession, post, postModern, rpc } from '../../../support/gateway/post.ts'
import { answer, OK_RESULT, startRawServer } from '../../../support/servers/raw-server.ts'

test('a changed credential configuration applies to known callers too', async () => {
  const raw = await startRawServer({ era: 'legacy', call: (request) => answer(request, OK_RESULT) })
  const gateway = await startExchangingGateway((endpoint) => [buildExchangingBackend('api', raw.url, endpoint)])
  const headers = await gateway.bearer('alice')
  const session = await openSession(gateway.url, headers)
  const call = () => post(gateway.url, rpc('tools/call', { name: 'api_t' }), session)
  const readSent = () => raw.calls('tools/call').at(-1)?.headers.authorization ?? 'none'
  assert.ok((await call()).json.result)
  assert.match(readSent(), /^Bearer for-alice-at-api/)
  const incomingAuth = { type: 'oidc', oidc: { issuer: gateway.idp.issuer, audience: AUDIENCE } } as const

  await gateway.configure({
    incomingAuth,
    backends: [buildExchangingBackend('api', raw.url, gateway.endpoint, { audience: 'other' })],
  })
  await eventually('the new audience', async () => {
    await call()
    return /for-alice-at-other/.test(readSent())
  })

  await gateway.configure({ incomingAuth, backends: [{ name: 'api', url: raw.url }] })
  await eventually('no credential', async () => {
    await call()
    return readSent() === 'none'
  })

  await gateway.configure({ incomingAuth, backends: [buildExchangingBackend('api', raw.url, gateway.endpoint)] })
  await eventually('the first one again', async () => {
    await call()
    return /for-alice-at-api/.test(readSent())
  })

  await gateway.configure({ incomingAuth, backends: [] })
  await eventually('nothing to call', async () => {
    const { json } = await postModern(gateway.url, 'tools/call', { name: 'api_t' }, headers)
    return json.error?.code === -32602
  })
  assert.equal(
    gateway.lines.filter(({ level }) => level === 'error'),
    [],
  )
  await gateway.close()
  await raw.close()
})

test.run()
