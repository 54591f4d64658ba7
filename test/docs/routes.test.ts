/** Compares the table of routes in docs/architecture.md with the apps and handlers that serve them. */
import { readFileSync } from 'node:fs'
import { request } from 'undici'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Gateway } from '../../dataplane/gateway/core/gateway.ts'
import { publicApp } from '../../dataplane/gateway/public-app.ts'
import { catalogOperations } from '../../dataplane/registry/api/catalog/operations.ts'
import type { Api } from '../../dataplane/registry/api/request/operation.ts'
import { parseCatalogPath } from '../../dataplane/registry/api/request/query.ts'
import { registryApp } from '../../dataplane/registry/app.ts'
import { startGateway } from '../support/gateway/gateway.ts'

interface Row {
  readonly listener: string
  readonly path: string
  readonly methods: readonly string[]
  readonly isBeforeApp: boolean
}

const text = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8')
const [, section = ''] = text.split('\n## What is served\n')
const rows: readonly Row[] = [
  ...section.matchAll(/^\| (gateway|registry) \| `([^`]+)` \| ([A-Z, ]+) \| (\w+) the app/gm),
].map(([, listener = '', path = '', methods = '', by]) => ({
  listener,
  path,
  methods: methods.split(', '),
  isBeforeApp: by === 'before',
}))
const routesIn = (listener: string, isBeforeApp: boolean) =>
  rows
    .filter((row) => row.listener === listener && row.isBeforeApp === isBeforeApp)
    .flatMap(({ path, methods }) => methods.map((method) => `${method} ${path}`))
    .sort()
/** Returns the endpoints of an app. A route without a method is a middleware, or refuses other methods. */
const listRoutes = ({ routes }: { readonly routes: readonly { method: string; path: string }[] }) =>
  [...new Set(routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => `${method} ${path}`))].sort()

test('a gateway’s app serves the routes of the table', () => {
  assert.equal(listRoutes(publicApp({} as Gateway)), routesIn('gateway', false))
})

test('a gateway answers the MCP endpoint for the methods of the table', async () => {
  const [{ path, methods } = { path: '', methods: [] }, ...others] = rows.filter(
    ({ listener, isBeforeApp }) => listener === 'gateway' && isBeforeApp,
  )
  assert.equal(others, [])
  const gateway = await startGateway({ backends: [] })
  try {
    const { statusCode, headers, body } = await request(gateway.base + path, { method: 'PUT' })
    await body.dump()
    assert.is(statusCode, 405)
    assert.equal(String(headers['allow']).split(', ').sort(), [...methods].sort())
  } finally {
    await gateway.close()
  }
})

test('a registry answers the reads of the catalog before its app', () => {
  assert.equal(
    catalogOperations.map(({ method, path }) => `${method.toUpperCase()} ${path}`).sort(),
    routesIn('registry', true),
  )
  for (const { path } of catalogOperations) assert.ok(parseCatalogPath(path.replace('{entry}', 'a%2Fb')), path)
})

test('a registry’s app serves the routes of the table and of its OpenAPI description', async () => {
  const app = registryApp({
    api: { identity: { metadata: () => undefined, challenge: () => new Error() } } as unknown as Api,
    version: '1',
    hosts: () => ({}),
  } as unknown as Parameters<typeof registryApp>[0])
  const described = app.routes.filter(({ path }) => /^\/(v1|registry\/:registry\/v0\.1)\//.test(path))
  assert.ok(described.length > 30)
  assert.equal(
    listRoutes({ routes: app.routes.filter((route) => !described.includes(route)) }),
    routesIn('registry', false),
  )
})

test.run()
