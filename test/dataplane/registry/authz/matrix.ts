import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import {
  type AuthzRegistry,
  acme,
  type CallerName,
  callers,
  data,
  entryPath,
  listLabels,
  platform,
  type Reply,
  serverPath,
  startAuthzRegistry,
} from '../../../support/registry/authz.ts'
import { registryFile, server } from '../../../support/registry/registry.ts'

/**
 * Tests who may see and do what (the tables of the specification and its decisions), with a real server. `config` is
 * the rest of its configuration.
 */
export function authorizationMatrix(on: string, config: () => Promise<object>, close?: () => Promise<void>): void {
  const test = suite(on)
  let it: AuthzRegistry
  test.before(async () => {
    it = await startAuthzRegistry({ config: await config() })
  })
  test.after(async () => {
    await it?.close()
    await close?.()
  })

  const status = async (caller: string | undefined, method: string, path: string, body?: unknown) =>
    (await it.as(caller, method, path, body)).status
  const formatRefusal = ({ status, body }: Reply) => `${status} ${body.error}`
  const list = (registry: string) => `/registry/${registry}/v0.1/servers`
  const NOT_FOUND = { error: 'not_found', message: 'Not found.' }

  test('without a valid token everything but the metadata and the description is 401, with the way to a token', async () => {
    for (const [method, path] of [
      ['GET', list('main')],
      ['GET', list('acme-all')],
      ['GET', list('unknown')],
      ['GET', `${serverPath('main', 'com.acme/shared')}/versions/latest`],
      ['GET', '/v1/sources'],
      ['POST', '/v1/sources'],
      ['GET', '/v1/registries'],
      ['POST', '/v1/entries'],
      ['GET', '/v1/me'],
      ['POST', '/v1/explain'],
      ['GET', '/nothing'],
    ] as const)
      for (const header of [undefined, 'Bearer', 'Bearer garbage', 'Bearer a.b.c', 'Basic YTpi']) {
        const { headers, ...reply } = await it.as(header, method, path)
        assert.is(formatRefusal({ headers, ...reply }), '401 unauthenticated', `${method} ${path} ${header}`)
        assert.match(
          headers.get('www-authenticate') ?? '',
          /^Bearer realm="mcp-registry", resource_metadata="https:\/\/registry\.example\/\.well-known\/oauth-protected-resource"/,
        )
      }
    assert.is(await status(undefined, 'GET', '/.well-known/oauth-protected-resource'), 200)
    assert.is(await status(undefined, 'GET', '/openapi.json'), 200)
  })

  test('the metadata of the resource name its issuers (RFC 9728)', async () => {
    assert.equal((await it.as(undefined, 'GET', '/.well-known/oauth-protected-resource')).body, {
      resource: 'https://registry.example',
      authorization_servers: [it.idp.issuer],
      bearer_methods_supported: ['header'],
    })
  })

  const gates: [CallerName, Record<string, number>][] = [
    ['platform-writer', { main: 200, 'acme-all': 200, 'acme-platform': 200, 'acme-data': 403, unknown: 404 }],
    ['data-writer', { main: 200, 'acme-all': 200, 'acme-platform': 403, 'acme-data': 200, unknown: 404 }],
    ['both-teams', { 'acme-all': 200, 'acme-platform': 200, 'acme-data': 200 }],
    ['outsider', { main: 200, 'acme-all': 403, 'acme-platform': 403, 'acme-data': 403, unknown: 404 }],
    ['nobody', { main: 200, 'acme-all': 403 }],
    ['super-admin', { main: 200, 'acme-all': 200, 'acme-platform': 200, 'acme-data': 200, unknown: 404 }],
  ]
  for (const [caller, expected] of gates)
    test(`gate: ${caller}`, async () => {
      for (const [registry, code] of Object.entries(expected))
        for (const path of ['', '?limit=0', '/com.acme%2Fshared/versions', '/com.acme%2Fnothing/versions/latest']) {
          const reply = await it.as(caller, 'GET', `${list(registry)}${path}`)
          if (code === 403) assert.is(formatRefusal(reply), '403 forbidden_claims', path)
          else if (code === 404) assert.equal([reply.status, reply.body], [404, NOT_FOUND], path)
          else if (path === '') assert.is(reply.status, 200)
          else if (path === '?limit=0') assert.is(formatRefusal(reply), '400 invalid_request')
        }
    })

  const seen: [CallerName, string, string[]][] = [
    ['platform-writer', 'main', ['com.acme/covered', 'com.acme/platform-tool', 'com.acme/shared']],
    ['data-writer', 'main', ['com.acme/covered', 'com.acme/data-tool', 'com.acme/shared']],
    ['both-teams', 'main', ['com.acme/covered', 'com.acme/data-tool', 'com.acme/platform-tool', 'com.acme/shared']],
    ['super-admin', 'main', ['com.acme/covered', 'com.acme/data-tool', 'com.acme/platform-tool', 'com.acme/shared']],
    ['outsider', 'main', []],
    ['nobody', 'main', []],
  ]
  for (const [caller, registry, names] of seen)
    test(`filter: ${caller} sees ${names.length} of ${registry}`, async () => {
      const reply = await it.as(caller, 'GET', list(registry))
      assert.equal(listLabels(reply), names)
      assert.is(reply.body.metadata.count, names.length)
      for (const name of ['com.acme/platform-tool', 'com.acme/data-tool', 'com.acme/shared']) {
        const visible = names.includes(name)
        const search = await it.as(caller, 'GET', `${list(registry)}?search=${name.slice('com.acme/'.length)}`)
        assert.is(search.body.metadata.count, visible ? 1 : 0)
        for (const path of ['/versions', '/versions/latest', '/versions/1.0.0']) {
          const one = await it.as(caller, 'GET', serverPath(registry, name) + path)
          if (visible) assert.is(one.status, 200)
          else assert.equal([one.status, one.body], [404, NOT_FOUND], 'hidden is as absent')
        }
      }
    })

  test('a name is taken by the first source that the caller sees', async () => {
    const latest = async (caller: CallerName, registry: string) =>
      (await it.as(caller, 'GET', `${serverPath(registry, 'com.acme/covered')}/versions/latest`)).body.server.version
    assert.is(await latest('data-writer', 'main'), '1.0.0')
    assert.is(await latest('data-writer', 'acme-data'), '9.0.0')
    assert.is(await latest('platform-writer', 'acme-platform'), '1.0.0')
  })

  test('an answer is private to the caller: its tag depends on what the caller sees', async () => {
    const readEtag = async (caller: CallerName) =>
      (await it.as(caller, 'GET', list('main'))).headers.get('etag') as string
    const mine = await readEtag('platform-writer')
    assert.is.not(mine, await readEtag('data-writer'))
    const token = await it.mintToken('data-writer')
    const again = await fetch(`${it.registry.url}${list('main')}`, {
      headers: { authorization: `Bearer ${token}`, 'if-none-match': mine },
    })
    assert.is(again.status, 200)
    assert.is(again.headers.get('cache-control'), 'private, no-cache')
    assert.match(again.headers.get('vary') ?? '', /authorization/i)
  })

  test('sources: admins list and get what their claims satisfy', async () => {
    const names = ({ body }: Reply) => (body.sources as { name: string }[]).map(({ name }) => name)
    assert.equal(names(await it.as('platform-admin', 'GET', '/v1/sources')), ['internal', 'platform', 'shared'])
    assert.equal(names(await it.as('super-admin', 'GET', '/v1/sources')), ['data', 'internal', 'platform', 'shared'])
    assert.equal(names(await it.as('outsider-admin', 'GET', '/v1/sources')), [])
    assert.is(await status('platform-admin', 'GET', '/v1/sources/shared'), 200)
    for (const path of ['/v1/sources/data', '/v1/sources/unknown', '/v1/sources/data/entries']) {
      const { status, body } = await it.as('platform-admin', 'GET', path)
      assert.equal([status, body], [404, NOT_FOUND], path)
    }
    for (const path of ['/v1/sources', '/v1/sources/shared', '/v1/sources/unknown', '/v1/sources/shared/entries'])
      assert.is(formatRefusal(await it.as('platform-writer', 'GET', path)), '403 forbidden_role', path)
  })

  test('a source shows its settings and the state of its syncs', async () => {
    const { body } = await it.as('super-admin', 'GET', '/v1/sources/platform')
    assert.equal(body.claims, platform)
    assert.is(body.origin, 'config')
    assert.equal(body.file, { path: '../platform.json' })
    assert.is(body.sync.state, 'ok', JSON.stringify(body.sync))
    assert.is(body.sync.servers, 1)
    assert.is(body.sync.error, null)
    for (const time of [body.createdAt, body.updatedAt, body.sync.lastSuccess]) assert.ok(Date.parse(time) > 0)
  })

  test('registries: the same rules', async () => {
    const names = ({ body }: Reply) => (body.registries as { name: string }[]).map(({ name }) => name)
    assert.equal(names(await it.as('platform-admin', 'GET', '/v1/registries')), ['acme-all', 'acme-platform', 'main'])
    assert.equal(names(await it.as('outsider-admin', 'GET', '/v1/registries')), ['main'])
    for (const path of ['/v1/registries/acme-data', '/v1/registries/unknown', '/v1/registries/acme-data/entries']) {
      const { status, body } = await it.as('platform-admin', 'GET', path)
      assert.equal([status, body], [404, NOT_FOUND], path)
    }
    assert.is(formatRefusal(await it.as('platform-writer', 'GET', '/v1/registries')), '403 forbidden_role')
    const { body } = await it.as('platform-admin', 'GET', '/v1/registries/acme-platform')
    assert.equal([body.sources, body.claims, body.origin], [['platform', 'shared'], platform, 'config'])
  })

  test('entries of sources and registries: raw, with claims, unshadowed', async () => {
    const source = await it.as('platform-admin', 'GET', '/v1/sources/platform/entries')
    assert.equal(source.body.metadata, { count: 1 })
    const [entry] = source.body.entries
    assert.equal([entry.type, entry.name, entry.claims], ['server', 'com.acme/platform-tool', platform])
    assert.equal([entry.versions[0].version, entry.versions[0].description], ['1.0.0', 'About com.acme/platform-tool'])

    const all: { name: string; source: string }[] = []
    let cursor: string | undefined = ''
    do {
      const { body } = await it.as('super-admin', 'GET', `/v1/registries/main/entries?limit=2&cursor=${cursor}`)
      assert.ok(body.entries.length <= 2)
      all.push(...body.entries)
      cursor = body.metadata.nextCursor
    } while (cursor !== undefined)
    assert.equal(
      all.map(({ name, source }) => `${name} ${source}`),
      [
        'com.acme/covered shared',
        'com.acme/covered data',
        'com.acme/data-tool data',
        'com.acme/platform-tool platform',
        'com.acme/shared shared',
      ],
    )
    for (const query of ['limit=0', 'limit=101', 'limit=x', 'cursor=x'])
      assert.is(
        formatRefusal(await it.as('super-admin', 'GET', `/v1/registries/main/entries?${query}`)),
        '400 invalid_request',
      )
  })

  const publish = (name: string, claims: object | undefined, version = '1.0.0', rest: object = {}) => ({
    server: server(name, version),
    ...(claims !== undefined && { claims }),
    ...rest,
  })

  test('publishing: who may, with which claims', async () => {
    const path = '/v1/entries'
    const post = async (caller: CallerName, body: unknown) => it.as(caller, 'POST', path, body)
    const refusals: [CallerName, unknown, string][] = [
      ['platform-writer', publish('com.acme/p', data), '403 claims_not_subset'],
      ['platform-writer', publish('com.acme/p', { ...platform, level: '1' }), '403 claims_not_subset'],
      ['platform-writer', publish('com.acme/p', undefined), '400 claims_required'],
      ['platform-writer', publish('com.acme/p', {}), '400 claims_required'],
      ['super-admin', publish('com.acme/p', {}), '400 claims_required'],
      ['outsider-writer', publish('com.acme/p', acme), '403 claims_not_subset'],
      ['outsider', publish('com.acme/p', { org: 'contoso' }), '403 forbidden_role'],
      ['platform-admin', publish('com.acme/p', platform), '403 forbidden_role'],
      ['platform-writer', publish('com.acme/p', platform, '1.0.0', { source: 'shared' }), '400 source_not_managed'],
      ['platform-writer', publish('com.acme/p', platform, '1.0.0', { source: 'data' }), '404 not_found'],
      ['platform-writer', publish('com.acme/p', platform, '1.0.0', { source: 'unknown' }), '404 not_found'],
      ['platform-writer', { claims: platform }, '400 invalid_request'],
    ]
    for (const [caller, body, expected] of refusals)
      assert.is(formatRefusal(await post(caller, body)), expected, `${caller} ${JSON.stringify(body)}`)
    assert.is((await post('platform-writer', publish('com.acme/p', platform))).status, 201)

    const hidden = await it.as('data-writer', 'GET', `${serverPath('main', 'com.acme/p')}/versions/latest`)
    assert.equal([hidden.status, hidden.body], [404, NOT_FOUND])
    assert.is(await status('platform-writer', 'GET', `${serverPath('main', 'com.acme/p')}/versions/latest`), 200)
    assert.is(await status('super-admin', 'GET', `${serverPath('main', 'com.acme/p')}/versions/latest`), 200)
  })

  test('claims of a managed source decide only who manages it, not who publishes or changes entries', async () => {
    const contoso = { org: 'contoso' }
    for (const [version, rest] of [
      ['1.0.0', {}],
      ['1.1.0', { source: 'internal' }],
    ] as const) {
      const reply = await it.as(
        'outsider-writer',
        'POST',
        '/v1/entries',
        publish('com.contoso/p', contoso, version, rest),
      )
      assert.equal([reply.status, reply.body.source, reply.body.claims], [201, 'internal', contoso])
    }
    const hidden = await it.as('platform-writer', 'GET', `${serverPath('main', 'com.contoso/p')}/versions/latest`)
    assert.is(hidden.status, 404)
    for (const version of ['1.0.0', '1.1.0'])
      assert.is(
        await status('outsider-writer', 'DELETE', `/v1/entries/server/com.contoso%2Fp/versions/${version}`),
        204,
      )
  })

  test('a later version has the claims of the first, also for a super-admin; the same version again changes nothing', async () => {
    const post = async (caller: CallerName, ...rest: Parameters<typeof publish>) =>
      it.as(caller, 'POST', '/v1/entries', publish(...rest))
    assert.is((await post('platform-writer', 'com.acme/v', acme)).status, 201)
    assert.is((await post('platform-writer', 'com.acme/v', acme)).status, 200)
    assert.is(
      formatRefusal(
        await it.as('platform-writer', 'POST', '/v1/entries', {
          server: { ...server('com.acme/v'), description: 'Other.' },
          claims: acme,
        }),
      ),
      '409 version_exists',
    )
    assert.is(formatRefusal(await post('platform-writer', 'com.acme/v', platform, '2.0.0')), '409 claims_mismatch')
    assert.is(formatRefusal(await post('super-admin', 'com.acme/v', platform, '2.0.0')), '409 claims_mismatch')
    assert.is(formatRefusal(await post('platform-writer', 'com.acme/v', {}, '2.0.0')), '400 claims_required')
    assert.is(formatRefusal(await post('platform-writer', 'com.acme/v', platform)), '409 claims_mismatch')
    assert.is((await post('data-writer', 'com.acme/v', acme, '2.0.0')).status, 201)

    const versions = await it.as('platform-writer', 'GET', `${serverPath('main', 'com.acme/v')}/versions`)
    assert.equal(
      versions.body.servers.map((entry: { server: { version: string } }) => entry.server.version),
      ['2.0.0', '1.0.0'],
    )
    assert.is(await status('outsider', 'GET', `${serverPath('main', 'com.acme/v')}/versions`), 404)
  })

  test('deleting: by callers with the claims; the version may be published again', async () => {
    const path = `${entryPath('com.acme/gone')}/versions/1.0.0`
    await it.as('platform-writer', 'POST', '/v1/entries', publish('com.acme/gone', platform))
    assert.is(formatRefusal(await it.as('data-writer', 'DELETE', path)), '403 forbidden_claims')
    assert.is(formatRefusal(await it.as('platform-admin', 'DELETE', path)), '403 forbidden_role')
    assert.is(
      formatRefusal(await it.as('platform-writer', 'DELETE', `${entryPath('com.acme/gone')}/versions/latest`)),
      '400 invalid_request',
    )
    assert.is(
      formatRefusal(await it.as('platform-writer', 'DELETE', `${entryPath('com.acme/gone')}/versions/3.0.0`)),
      '404 not_found',
    )
    assert.is(await status('platform-writer', 'DELETE', path), 204)
    assert.is(formatRefusal(await it.as('platform-writer', 'DELETE', path)), '404 not_found')
    assert.is(await status('platform-writer', 'GET', `${serverPath('main', 'com.acme/gone')}/versions/latest`), 404)
    assert.is(await status('platform-writer', 'POST', '/v1/entries', publish('com.acme/gone', platform)), 201)
    assert.is(await status('super-admin', 'DELETE', path), 204)
    assert.is(
      formatRefusal(await it.as('platform-writer', 'DELETE', `${entryPath('com.acme/platform-tool')}/versions/1.0.0`)),
      '403 read_only',
    )
    assert.is(
      formatRefusal(await it.as('data-writer', 'DELETE', `${entryPath('com.acme/platform-tool')}/versions/1.0.0`)),
      '403 forbidden_claims',
    )
  })

  test('a caller with the claims sets the status of a version, and followers of changes see it', async () => {
    await it.as('platform-writer', 'POST', '/v1/entries', publish('com.acme/aged', platform))
    const path = `${entryPath('com.acme/aged')}/versions/1.0.0/status`
    const aged = { status: 'deprecated', statusMessage: 'Use com.acme/shared.' }
    assert.is(formatRefusal(await it.as('data-writer', 'PATCH', path, aged)), '403 forbidden_claims')
    assert.is(formatRefusal(await it.as('platform-admin', 'PATCH', path, aged)), '403 forbidden_role')
    assert.is(
      formatRefusal(await it.as('platform-writer', 'PATCH', path, { status: 'deleted' })),
      '400 invalid_request',
    )
    assert.is(
      formatRefusal(await it.as('platform-writer', 'PATCH', path.replace('1.0.0', '2.0.0'), aged)),
      '404 not_found',
    )
    const before = new Date(Date.now() - 1).toISOString()
    assert.is(await status('platform-writer', 'PATCH', path, aged), 204)
    const { body } = await it.as('platform-writer', 'GET', `${list('main')}?search=aged&updated_since=${before}`)
    const { status: listed, statusMessage } = body.servers[0]._meta['io.modelcontextprotocol.registry/official']
    assert.equal({ status: listed, statusMessage }, aged)
    assert.is(await status('platform-writer', 'PATCH', path, { status: 'active' }), 204)
  })

  test('claims of an entry: read and replaced by callers that satisfy the old and the new ones', async () => {
    const path = `${entryPath('com.acme/moved')}/claims`
    await it.as('both-teams', 'POST', '/v1/entries', publish('com.acme/moved', platform))
    await it.as('both-teams', 'POST', '/v1/entries', publish('com.acme/moved', platform, '2.0.0'))
    assert.equal((await it.as('platform-writer', 'GET', path)).body, { claims: platform })
    assert.equal((await it.as('super-admin', 'GET', path)).body, { claims: platform })
    const refusals: [CallerName | undefined, string, string, unknown, string][] = [
      ['data-writer', 'GET', path, undefined, '403 forbidden_claims'],
      ['platform-admin', 'GET', path, undefined, '403 forbidden_role'],
      ['nobody', 'GET', path, undefined, '403 forbidden_role'],
      [undefined, 'GET', path, undefined, '401 unauthenticated'],
      ['platform-writer', 'GET', `${entryPath('com.acme/none')}/claims`, undefined, '404 not_found'],
      ['platform-writer', 'GET', `${entryPath('com.acme/moved', 'plugin')}/claims`, undefined, '400 invalid_request'],
      ['platform-writer', 'PUT', path, { claims: data }, '403 forbidden_claims'],
      ['data-writer', 'PUT', path, { claims: data }, '403 forbidden_claims'],
      ['platform-writer', 'PUT', path, { claims: { org: ['acme'] } }, '400 invalid_request'],
      ['platform-writer', 'PUT', path, { claims: null }, '400 invalid_request'],
      ['platform-writer', 'PUT', path, {}, '400 invalid_request'],
      ['platform-writer', 'PUT', path, '{', '400 parse_error'],
      ['platform-writer', 'PUT', `${entryPath('com.acme/platform-tool')}/claims`, { claims: acme }, '403 read_only'],
    ]
    for (const [caller, method, at, body, expected] of refusals)
      assert.is(
        formatRefusal(await it.as(caller, method, at, body)),
        expected,
        `${caller} ${method} ${at} ${JSON.stringify(body)}`,
      )

    const moved = await it.as('both-teams', 'PUT', path, { claims: data })
    assert.equal([moved.status, moved.body], [204, undefined])
    for (const version of ['1.0.0', '2.0.0']) {
      assert.is(await status('data-writer', 'GET', `${serverPath('main', 'com.acme/moved')}/versions/${version}`), 200)
      assert.is(
        await status('platform-writer', 'GET', `${serverPath('main', 'com.acme/moved')}/versions/${version}`),
        404,
      )
    }
    assert.is(await status('data-writer', 'PUT', path, { claims: {} }), 204)
    assert.is(await status('data-writer', 'GET', `${serverPath('main', 'com.acme/moved')}/versions/1.0.0`), 404)
    assert.is(await status('super-admin', 'GET', `${serverPath('main', 'com.acme/moved')}/versions/1.0.0`), 200)
    assert.is(await status('data-writer', 'POST', '/v1/entries', publish('com.acme/moved', undefined, '3.0.0')), 201)
    assert.is(
      formatRefusal(await it.as('data-writer', 'POST', '/v1/entries', publish('com.acme/moved', data, '4.0.0'))),
      '409 claims_mismatch',
    )
  })

  test('a name in several synced sources means the entry whose claims the caller holds', async () => {
    const path = `${entryPath('com.acme/twice')}/claims`
    const file = { data: registryFile([server('com.acme/twice')]) }
    for (const [name, claims] of Object.entries({ first: platform, second: data })) {
      assert.is(await status('super-admin', 'PUT', `/v1/sources/${name}`, { file, claims }), 201)
      assert.is(await status('super-admin', 'POST', `/v1/sources/${name}/sync?wait=true`), 200)
    }
    for (const [caller, claims] of [
      ['platform-writer', platform],
      ['data-writer', data],
      ['both-teams', platform],
    ] as const) {
      assert.equal((await it.as(caller, 'GET', path)).body, { claims }, caller)
      assert.is(formatRefusal(await it.as(caller, 'PUT', path, { claims: {} })), '403 read_only', caller)
    }
    assert.equal((await it.as('both-teams', 'GET', `${path}?source=second`)).body, { claims: data })
    assert.is(formatRefusal(await it.as('outsider-writer', 'GET', path)), '403 forbidden_claims')
    for (const name of ['first', 'second']) assert.is(await status('super-admin', 'DELETE', `/v1/sources/${name}`), 204)
  })

  test('an entry’s name whose slash came unencoded means the same', async () => {
    await it.as('platform-writer', 'POST', '/v1/entries', publish('com.acme/slash', platform))
    assert.equal((await it.as('platform-writer', 'GET', '/v1/entries/server/com.acme/slash/claims')).body, {
      claims: platform,
    })
    assert.is(await status('platform-writer', 'DELETE', '/v1/entries/server/com.acme/slash/versions/1.0.0'), 204)
  })

  test('objects of the configuration change only there, also for super-admins', async () => {
    for (const caller of ['platform-admin', 'super-admin'] as const)
      for (const [method, path, body] of [
        ['PUT', '/v1/sources/shared', { managed: {} }],
        ['DELETE', '/v1/sources/shared', undefined],
        ['PUT', '/v1/registries/acme-all', { sources: ['shared'] }],
        ['DELETE', '/v1/registries/acme-all', undefined],
      ] as const)
        assert.is(
          formatRefusal(await it.as(caller, method, path, body)),
          '403 read_only',
          `${caller} ${method} ${path}`,
        )
  })

  test('the life of a source: created, hidden from others, changed, used by a registry, removed', async () => {
    const path = '/v1/sources/team'
    const source = { managed: {}, claims: platform }
    const as = (caller: CallerName, method: string, at: string, body?: unknown) => it.as(caller, method, at, body)
    assert.is(
      formatRefusal(await as('platform-admin', 'PUT', path, { ...source, claims: data })),
      '403 claims_not_subset',
    )
    assert.is(
      formatRefusal(await as('platform-admin', 'POST', '/v1/sources', { name: 'team', ...source, claims: data })),
      '403 claims_not_subset',
    )
    assert.is(
      formatRefusal(await as('platform-admin', 'PUT', path, { ...source, name: 'other' })),
      '400 invalid_request',
    )
    assert.is((await as('platform-admin', 'PUT', path, source)).status, 201)
    assert.is(
      formatRefusal(await as('platform-admin', 'POST', '/v1/sources', { name: 'team', ...source })),
      '409 conflict',
    )
    assert.is(
      formatRefusal(await as('platform-admin', 'POST', '/v1/sources', { name: 'shared', ...source })),
      '409 conflict',
    )
    const { body } = await as('platform-admin', 'GET', path)
    assert.equal(
      [body.name, body.managed, body.claims, body.origin, body.sync],
      ['team', {}, platform, 'api', undefined],
    )
    for (const method of ['GET', 'PUT', 'DELETE'])
      assert.is(
        formatRefusal(await as('outsider-admin', method, path, method === 'PUT' ? source : undefined)),
        '404 not_found',
      )
    assert.is(
      formatRefusal(await as('platform-admin', 'PUT', path, { ...source, claims: data })),
      '403 claims_not_subset',
    )
    assert.is(
      formatRefusal(await as('platform-admin', 'PUT', path, { git: { repository: 'https://example.com/a.git' } })),
      '400 invalid_request',
    )
    assert.is((await as('platform-admin', 'PUT', path, { ...source, claims: acme })).status, 200)
    assert.is(
      formatRefusal(await as('platform-writer', 'POST', '/v1/entries', publish('com.acme/which', platform))),
      '400 source_required',
    )
    assert.is(
      (
        await as(
          'platform-writer',
          'POST',
          '/v1/entries',
          publish('com.acme/which', platform, '1.0.0', { source: 'team' }),
        )
      ).status,
      201,
    )

    assert.is(
      (await as('platform-admin', 'PUT', '/v1/registries/own', { sources: ['team'], claims: platform })).status,
      201,
    )
    assert.equal(listLabels(await as('platform-writer', 'GET', list('own'))), ['com.acme/which'])
    assert.is(formatRefusal(await as('platform-admin', 'DELETE', path)), '409 conflict')
    assert.is((await as('platform-admin', 'DELETE', '/v1/registries/own')).status, 204)
    assert.is((await as('platform-admin', 'DELETE', path)).status, 204)
    assert.is(formatRefusal(await as('platform-admin', 'DELETE', path)), '404 not_found')
    assert.is(formatRefusal(await as('platform-admin', 'GET', path)), '404 not_found')
  })

  test('the life of a registry', async () => {
    const path = '/v1/registries/mine'
    const put = (caller: CallerName, body: unknown) => it.as(caller, 'PUT', path, body)
    assert.is(
      formatRefusal(await put('platform-admin', { sources: ['shared'], claims: data })),
      '403 claims_not_subset',
    )
    for (const sources of [[], ['unknown'], ['data'], ['shared', 'shared']])
      assert.is(formatRefusal(await put('platform-admin', { sources })), '400 invalid_request', JSON.stringify(sources))
    assert.is((await put('platform-admin', { sources: ['shared'], claims: platform })).status, 201)
    assert.is((await put('platform-admin', { sources: ['platform', 'shared'], claims: acme })).status, 200)
    assert.equal(listLabels(await it.as('platform-writer', 'GET', list('mine'))), [
      'com.acme/covered',
      'com.acme/platform-tool',
      'com.acme/shared',
    ])
    assert.is(formatRefusal(await it.as('outsider-admin', 'GET', path)), '404 not_found')
    assert.is(formatRefusal(await it.as('outsider-admin', 'DELETE', path)), '404 not_found')
    assert.is(formatRefusal(await it.as('platform-writer', 'DELETE', path)), '403 forbidden_role')
    const { body } = await it.as('platform-admin', 'GET', path)
    assert.equal([body.sources, body.claims, body.origin], [['platform', 'shared'], acme, 'api'])
    assert.is(await status('platform-admin', 'DELETE', path), 204)
    assert.is(await status('platform-writer', 'GET', list('mine')), 404)
    const posted = await it.as('super-admin', 'POST', '/v1/registries', {
      name: 'posted',
      sources: ['data'],
      claims: data,
    })
    assert.equal([posted.status, posted.headers.get('location')], [201, '/v1/registries/posted'])
    assert.is(
      formatRefusal(await it.as('super-admin', 'POST', '/v1/registries', { name: 'posted', sources: ['data'] })),
      '409 conflict',
    )
    assert.is(formatRefusal(await it.as('platform-admin', 'DELETE', '/v1/registries/posted')), '404 not_found')
    assert.is(await status('super-admin', 'DELETE', '/v1/registries/posted'), 204)
  })

  test('a source from the API can read neither this machine nor its network', async () => {
    for (const [source, pointer] of [
      [{ file: { path: '/etc/passwd' } }, '/file/path'],
      [{ file: { url: 'http://127.0.0.1/a.json' } }, '/file/url'],
      [{ api: { endpoint: 'http://169.254.169.254/latest' } }, '/api/endpoint'],
      [{ api: { endpoint: 'http://10.0.0.1' } }, '/api/endpoint'],
      [{ api: { endpoint: 'http://[::1]:8080' } }, '/api/endpoint'],
      [{ api: { endpoint: 'http://2130706433/' } }, '/api/endpoint'],
      [{ api: { endpoint: 'http://localhost' } }, '/api/endpoint'],
      [{ api: { endpoint: 'https://example.com', headersFile: '/etc/shadow' } }, '/api/headersFile'],
      [{ git: { repository: '/srv/git/a.git' } }, '/git/repository'],
      [{ git: { repository: 'file:///srv/git/a.git' } }, '/git/repository'],
      [{ git: { repository: 'ext::sh -c whoami' } }, '/git/repository'],
      [
        { git: { repository: 'https://example.com/a.git', auth: { username: 'a', passwordFile: '/etc/shadow' } } },
        '/git/auth',
      ],
      [
        {
          kubernetes: {
            namespaces: ['a'],
            apiServer: { url: 'https://kubernetes.default.svc', tokenFile: '/run/t', caFile: '/run/c' },
          },
        },
        '/kubernetes/apiServer',
      ],
      [{}, ''],
      [{ managed: {}, git: { repository: 'https://example.com/a.git' } }, ''],
      [{ managed: {}, syncPolicy: { interval: '1s' } }, '/syncPolicy'],
      [{ file: { data: '{}' }, syncPolicy: { interval: '1ms' } }, '/syncPolicy/interval'],
      [{ managed: {}, colour: 'blue' }, '/colour'],
    ] as const) {
      const reply = await it.as('super-admin', 'PUT', '/v1/sources/evil', source)
      assert.is(formatRefusal(reply), '400 invalid_request', JSON.stringify(source))
      assert.ok(
        reply.body.details.some((detail: { pointer: string }) => detail.pointer === pointer),
        `${JSON.stringify(source)}: ${JSON.stringify(reply.body.details)}`,
      )
    }
    assert.is(await status('super-admin', 'GET', '/v1/sources/evil'), 404)
  })

  test('a sync on demand is a full pass; with wait it has ended', async () => {
    assert.is(await status('platform-admin', 'POST', '/v1/sources/shared/sync'), 202)
    const { status: code, body } = await it.as('platform-admin', 'POST', '/v1/sources/shared/sync?wait=true')
    assert.equal([code, body.state, body.servers], [200, 'ok', 2])
    assert.is(formatRefusal(await it.as('platform-admin', 'POST', '/v1/sources/data/sync')), '404 not_found')
    assert.is(formatRefusal(await it.as('platform-admin', 'POST', '/v1/sources/internal/sync')), '409 conflict')
    assert.is(
      formatRefusal(await it.as('platform-admin', 'POST', '/v1/sources/shared/sync?wait=maybe')),
      '400 invalid_request',
    )
    assert.is(formatRefusal(await it.as('platform-writer', 'POST', '/v1/sources/shared/sync')), '403 forbidden_role')
  })

  test('/v1/me shows the subject and the roles that the claims give', async () => {
    for (const [caller, roles] of [
      ['super-admin', ['superAdmin']],
      ['platform-admin', ['manageSources', 'manageRegistries']],
      ['both-teams', ['manageSources', 'manageRegistries', 'manageEntries']],
      ['outsider', []],
    ] as const)
      assert.equal((await it.as(caller, 'GET', '/v1/me')).body, { subject: caller, roles })
  })

  test('explain gives the reason, and reveals no hidden entries', async () => {
    const ask = async (caller: CallerName, name: string, claims?: object, registry = 'main') =>
      it.as(caller, 'POST', '/v1/explain', { registry, type: 'server', name, ...(claims && { claims }) })
    const visible = await ask('data-writer', 'com.acme/data-tool')
    assert.is(visible.body.visible, true)
    assert.equal(
      visible.body.checks.map(({ check, subject }: { check: string; subject: string }) => `${check} ${subject}`),
      ['registry main', 'entry data', 'precedence data'],
    )
    const hidden = await ask('platform-writer', 'com.acme/data-tool')
    assert.is(hidden.body.visible, false)
    assert.equal(hidden.body, (await ask('platform-writer', 'com.acme/absent')).body)
    assert.is((await ask('platform-writer', 'com.acme/data-tool', undefined, 'acme-data')).body.checks.length, 1)
    assert.is(formatRefusal(await ask('platform-writer', 'com.acme/data-tool', data)), '403 forbidden_role')
    assert.is(formatRefusal(await ask('super-admin', 'com.acme/data-tool', data, 'unknown')), '404 not_found')

    const forOthers = await ask('super-admin', 'com.acme/data-tool', callers['platform-writer'])
    assert.is(forOthers.body.visible, false)
    assert.match(forOthers.body.checks[1].reason, 'team=data')
    assert.is((await ask('super-admin', 'com.acme/data-tool', data)).body.visible, true)
  })

  test('a NUL character, which PostgreSQL refuses, is a 400 in any place', async () => {
    const cursor = Buffer.from(JSON.stringify(['x', 'a\0', 'b'])).toString('base64url')
    for (const [method, path, body, expected] of [
      ['GET', `${list('main')}?search=%00`, undefined, '400 invalid_request'],
      ['GET', `${list('main')}?cursor=${cursor}`, undefined, '400 invalid_request'],
      ['GET', `${list('main')}/a%2Fb%00/versions`, undefined, '400 invalid_request'],
      ['GET', `${entryPath('com.acme/a\0')}/claims`, undefined, '404 not_found'],
      ['GET', '/v1/sources/a%00', undefined, '404 not_found'],
      ['GET', '/registry/a%00/v0.1/servers', undefined, '404 not_found'],
    ] as const)
      assert.is(formatRefusal(await it.as('super-admin', method, path, body)), expected, path)
    const explained = await it.as('super-admin', 'POST', '/v1/explain', {
      registry: 'main',
      type: 'server',
      name: 'a/\0',
    })
    assert.equal([explained.status, explained.body.visible], [200, false])
    for (const texts of [{ title: 'a\0b' }, { description: 'c\0d' }]) {
      const refusedServer = { ...server('com.acme/nul'), ...texts }
      assert.is(await status('super-admin', 'POST', '/v1/entries', { server: refusedServer, claims: {} }), 400)
    }
    const nul = { ...server('com.acme/nul'), 'x-own': '\0' }
    assert.is(await status('super-admin', 'POST', '/v1/entries', { server: nul, claims: { 'a\0': '\0' } }), 201)
    const { body } = await it.as('super-admin', 'GET', `${serverPath('main', 'com.acme/nul')}/versions/latest`)
    assert.equal(body.server, nul)
    assert.equal((await it.as('super-admin', 'GET', `${entryPath('com.acme/nul')}/claims`)).body.claims, {
      'a\0': '\0',
    })
  })

  test('skills: published, seen by the team, deleted', async () => {
    const skill = { namespace: 'com.acme', name: 'review', description: 'Reviews.', version: '1.0.0' }
    const path = '/registry/main/v0.1/x/portico/skills'
    assert.is(await status('platform-writer', 'POST', '/v1/entries', { skill, claims: platform }), 201)
    const { body } = await it.as('platform-writer', 'GET', path)
    assert.equal(body.skills[0].skill, skill)
    assert.is(body.skills[0]._meta['io.modelcontextprotocol.registry/official'].isLatest, true)
    for (const one of [`${path}/com.acme%2Freview/versions`, `${path}/com.acme/review/versions/latest`]) {
      assert.is(await status('platform-writer', 'GET', one), 200, one)
      assert.is(await status('data-writer', 'GET', one), 404, one)
    }
    assert.is(await status('platform-writer', 'GET', `${serverPath('main', 'com.acme/review')}/versions`), 404)
    const version = `${entryPath('com.acme/review', 'skill')}/versions/1.0.0`
    assert.is(formatRefusal(await it.as('data-writer', 'DELETE', version)), '403 forbidden_claims')
    assert.is(await status('platform-writer', 'DELETE', version), 204)
    assert.is(formatRefusal(await it.as('platform-writer', 'DELETE', version)), '404 not_found')
  })

  test.run()
}
