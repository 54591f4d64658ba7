import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AuthzRegistry, acme, platform, startAuthzRegistry } from '../../../support/registry/authz.ts'

let stage: AuthzRegistry
test.before(async () => {
  stage = await startAuthzRegistry()
})
test.after(() => stage.close())

/**
 * Begins a PUT whose body does not arrive, and waits until its headers have been processed, which a later request's
 * answer shows.
 */
async function beginPut(path: string): Promise<ClientRequest> {
  const put = request(`${stage.registry.url}${path}`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${await stage.mintToken('platform-admin')}`,
      'content-type': 'application/json',
      expect: '100-continue',
    },
  })
  // If the test fails, it ends before this is answered.
  put.on('error', () => {})
  put.flushHeaders()
  await once(put, 'continue')
  await stage.as('platform-admin', 'GET', '/v1/me')
  return put
}

async function finish(put: ClientRequest, body: object): Promise<number> {
  put.end(JSON.stringify(body))
  const [answer] = (await once(put, 'response')) as [IncomingMessage]
  answer.resume()
  return answer.statusCode as number
}

test('claims that change while a body arrives apply to that request', async () => {
  const created = await stage.as('super-admin', 'PUT', '/v1/sources/late', { managed: {}, claims: platform })
  assert.is(created.status, 201)
  const registry = { sources: ['shared'], claims: platform }
  assert.is((await stage.as('super-admin', 'PUT', '/v1/registries/late', registry)).status, 201)

  const putSource = await beginPut('/v1/sources/late')
  const putRegistry = await beginPut('/v1/registries/late')
  const theirs = { org: 'contoso' }
  await stage.as('super-admin', 'PUT', '/v1/sources/late', { managed: {}, claims: theirs })
  await stage.as('super-admin', 'PUT', '/v1/registries/late', { sources: ['shared'], claims: theirs })

  assert.is(await finish(putSource, { managed: {}, claims: acme }), 404)
  assert.is(await finish(putRegistry, { sources: ['shared'], claims: acme }), 404)
  assert.equal((await stage.as('super-admin', 'GET', '/v1/sources/late')).body.claims, theirs)
  assert.equal((await stage.as('super-admin', 'GET', '/v1/registries/late')).body.claims, theirs)
})

test.run()
