import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type ProtectedResourceMetadata,
  protectedResourceMetadata,
  resourceMetadataUrl,
} from '../../../dataplane/identity/index.ts'
import { resourceMetadataRoutes } from '../../../dataplane/identity/resource-metadata-routes.ts'

const readMetadata = (resource: string) =>
  protectedResourceMetadata({ resource, issuers: ['https://idp.example/a'], scopes: ['mcp'] })

test('the document of RFC 9728', () => {
  assert.equal(readMetadata('https://gateway.example/mcp'), {
    resource: 'https://gateway.example/mcp',
    authorization_servers: ['https://idp.example/a'],
    bearer_methods_supported: ['header'],
    scopes_supported: ['mcp'],
  })
  for (const scopes of [undefined, []])
    assert.not('scopes_supported' in protectedResourceMetadata({ resource: 'https://a.example', issuers: [], scopes }))
})

for (const [resource, url] of [
  ['https://a.example', 'https://a.example/.well-known/oauth-protected-resource'],
  ['https://a.example/', 'https://a.example/.well-known/oauth-protected-resource'],
  ['https://a.example:8443/mcp', 'https://a.example:8443/.well-known/oauth-protected-resource/mcp'],
  ['https://a.example/x/mcp?y=1', 'https://a.example/.well-known/oauth-protected-resource/x/mcp?y=1'],
] as const)
  test(`the metadata of ${resource}`, () => assert.is(resourceMetadataUrl(resource), url))

test('the metadata is served on the bare path and on the resource’s own, whatever Host says', async () => {
  let current: ProtectedResourceMetadata | undefined = readMetadata('https://gateway.example/team/mcp')
  const app = resourceMetadataRoutes({ current: () => current })
  const get = (path: string, init?: RequestInit) =>
    app.request(`http://evil.example/.well-known/oauth-protected-resource${path}`, init)
  for (const path of ['', '/team/mcp']) {
    const response = await get(path)
    assert.is(response.status, 200, path)
    assert.is(response.headers.get('access-control-allow-origin'), '*')
    assert.equal(await response.json(), current)
  }
  for (const path of ['/mcp', '/team', '/team/mcp/x', '/team/mcpx', '/%74eam/mcp/../..']) {
    const response = await get(path)
    assert.is(response.status, 404, path)
    assert.is(((await response.json()) as { error: string }).error, 'not_found')
  }
  const preflight = await get('/team/mcp', {
    method: 'OPTIONS',
    headers: { origin: 'https://page.example', 'access-control-request-headers': 'mcp-protocol-version' },
  })
  assert.is(preflight.status, 204)
  assert.is(preflight.headers.get('access-control-allow-headers'), 'mcp-protocol-version')
  current = undefined
  assert.is((await get('')).status, 404)
})

test.run()
