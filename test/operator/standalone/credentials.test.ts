import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { postModern } from '../../support/gateway/post.ts'
import { object, StandaloneRun } from '../../support/operator/standalone-run.ts'
import { answer, OK_RESULT, startRawServer } from '../../support/servers/raw-server.ts'

const secret = (value: string) =>
  `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {token: ${value}, key: key-of-the-backend}\n`

const manifests = (url: string) =>
  [
    object('MCPGroup', 'g', ''),
    object('VirtualMCPServer', 'all', 'spec: {groupRef: {name: g}, incomingAuth: {type: anonymous}}\n'),
    ...['token', 'header', 'nothing'].map((name) =>
      object(
        'MCPServerEntry',
        name,
        `spec: {remoteUrl: "${url}?${name}", transport: streamable-http, groupRef: {name: g}, externalAuthConfigRef: {name: ${name}}}\n`,
      ),
    ),
    object(
      'MCPExternalAuthConfig',
      'token',
      'spec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: token}}}\n',
    ),
    object(
      'MCPExternalAuthConfig',
      'header',
      'spec: {type: headerInjection, headerInjection: {headerName: X-Key, valueSecretRef: {name: s, key: key}}}\n',
    ),
    object('MCPExternalAuthConfig', 'nothing', 'spec: {type: unauthenticated}\n'),
  ].join('---\n')

test('fixed credentials reach their own backend alone, from Secrets that may be rotated', async () => {
  const raw = await startRawServer({ era: 'modern', call: (request) => answer(request, OK_RESULT) })
  using folder = temporaryFolder({
    'manifests/all.yaml': manifests(raw.url),
    'manifests/secret.yaml': secret('first-token'),
  })
  await using run = new StandaloneRun(folder)
  const report = await run.until('it is ready', ({ ready }) => ready)
  const url = report.endpoints.find(({ kind }) => kind === 'VirtualMCPServer')?.url ?? ''
  const readHeaders = async (name: string) => {
    await postModern(
      url,
      'tools/call',
      { name: `${name}_t` },
      { authorization: 'Bearer of-the-client', 'x-key': 'mine' },
    )
    const { authorization, 'x-key': key } = raw.calls('tools/call').at(-1)?.headers ?? {}
    return { authorization, key }
  }
  assert.equal(await readHeaders('token'), { authorization: 'Bearer first-token', key: undefined })
  assert.equal(await readHeaders('header'), { authorization: undefined, key: 'key-of-the-backend' })
  assert.equal(await readHeaders('nothing'), { authorization: undefined, key: undefined })
  folder.write('manifests/secret.yaml', secret('second-token'))
  await eventually(
    'the rotated token',
    async () => (await readHeaders('token')).authorization === 'Bearer second-token',
  )
  assert.not.match(run.lines.join('\n'), /first-token|second-token|key-of-the-backend|of-the-client/)
  await raw.close()
})

test.run()
