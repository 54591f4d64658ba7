/** The console in a pod, over a real API server: whose rights apply, where tokens go, and what pages leave out. */
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { serveConsole } from '../../../console/serve.ts'
import { eventually } from '../../support/eventually.ts'
import { endFileOnError } from '../../support/or-fail.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { buildNamespace, gateway, group, serviceAccount } from '../support/manifests.ts'

const SHIPPED = join(import.meta.dirname, '../../../operator/deploy/console/console.yaml')

const cluster = newCluster()
let plane: ControlPlane
/** True once the console's own manifest is applied. */
let isShipped = false
let served: Awaited<ReturnType<typeof serveConsole>>
let second: Awaited<ReturnType<typeof serveConsole>>
let caFile: string
const VIEWERS = ['system:serviceaccount:team-a:ada', 'system:serviceaccount:team-b:bob']
const log = () => pino({ level: 'silent' })
const key = Buffer.alloc(32, 7).toString('base64')
const otherKey = Buffer.alloc(32, 8).toString('base64')

const serve = (name: string, config: string) => {
  const configFile = join(plane.directory, `${name}.yaml`)
  writeFileSync(configFile, config)
  return serveConsole({ configFile, listen: '127.0.0.1:0', log, environment: {} })
}

const common = (keys: string) =>
  `publicUrl: http://127.0.0.1:4480\nsession: {keyFiles: [${keys}]}\nkubernetes: {server: "${plane.server}", caFile: ${caFile}}\n`

const RBAC = { apiGroup: 'rbac.authorization.k8s.io' }
const buildRole = (kind: 'Role' | 'ClusterRole', name: string, namespace: string | undefined, rule: object) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind,
  metadata: { name, namespace },
  rules: [rule],
})
/** Binds a role to an account, in one namespace or, if none is given, in all of them. */
const buildBinding = (kind: 'Role' | 'ClusterRole', name: string, namespace: string | undefined, account: string) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding',
  metadata: { name, namespace },
  roleRef: { ...RBAC, kind, name },
  subjects: [{ kind: 'ServiceAccount', name: account, namespace: namespace ?? 'team-a' }],
})

const mayRead = (space: string, user: string, kind: string, namespace = 'default') =>
  plane.may(`system:serviceaccount:${space}:${user}`, 'list', kind, { namespace })

test.before(async () => {
  await cluster.install({ auditReadsOf: [...VIEWERS, 'system:anonymous'] })
  plane = cluster.plane
  caFile = join(plane.directory, 'certs', 'apiserver.crt')
  const inSpace = (one: ReturnType<typeof group>, namespace: string) => ({
    ...one,
    metadata: { ...one.metadata, namespace },
  })
  for (const [space, user] of [
    ['team-a', 'ada'],
    ['team-b', 'bob'],
  ] as const)
    plane.apply(
      buildNamespace(space),
      serviceAccount(user, space),
      buildRole('Role', 'viewer', space, { apiGroups: ['portico.dev'], resources: ['*'], verbs: ['get', 'list'] }),
      buildBinding('Role', 'viewer', space, user),
      inSpace(group('all'), space),
      inSpace(gateway(`gateway-of-${space}`, undefined, 'all'), space),
    )
  plane.apply(
    buildRole('ClusterRole', 'names', undefined, { apiGroups: [''], resources: ['namespaces'], verbs: ['list'] }),
    buildBinding('ClusterRole', 'names', undefined, 'ada'),
  )
  await eventually('the rights apply', () =>
    [
      mayRead('team-a', 'ada', 'vmcp', 'team-a'),
      mayRead('team-b', 'bob', 'vmcp', 'team-b'),
      mayRead('team-a', 'ada', 'namespace'),
    ].every(Boolean),
  )
  writeFileSync(join(plane.directory, 'key'), key)
  writeFileSync(join(plane.directory, 'other'), otherKey)
  served = await serve('one', `${common('key')}login: {token: {}}\n`)
  second = await serve('two', `${common('other, key')}login: {token: {}}\n`)
})
test.after(async () => {
  await served?.close()
  await second?.close()
  for (const kind of ['clusterrolebinding', 'clusterrole']) cluster.remove(kind, 'names')
  cluster.remove('clusterrolebinding', 'names-of-eve')
  if (isShipped) plane.kubectl(['delete', '-f', SHIPPED, '--wait=false'])
  await cluster.stop()
})

const mintToken = (space: string, user: string) => plane.token(user, space)
const ORIGIN = 'http://127.0.0.1:4480'

async function logIn(token: string, to = '/') {
  const answer = await fetch(`${served.url}/login`, {
    method: 'POST',
    headers: { origin: ORIGIN },
    body: new URLSearchParams({ token, to }),
    redirect: 'manual',
  })
  const cookies = answer.headers.getSetCookie().filter((one) => !one.includes('Max-Age=0'))
  return { answer, cookie: cookies.map((one) => one.split(';')[0]).join('; ') }
}

const get = (path: string, cookie: string, url = served.url) =>
  fetch(url + path, { headers: { cookie, accept: 'application/json' }, redirect: 'manual' })
const names = async (cookie: string, url?: string) =>
  ((await (await get('/workloads', cookie, url)).json()) as { facts: { rows: { name: string }[] } }).facts.rows.map(
    ({ name }) => name,
  )

test('a viewer sees what the role allows, and how many namespaces are left out', async () => {
  const { cookie } = await logIn(mintToken('team-a', 'ada'))
  assert.equal(await names(cookie), ['gateway-of-team-a'])
  const page = await (await fetch(`${served.url}/`, { headers: { cookie } })).text()
  assert.match(page, /\d+ of \d+ namespaces can’t be read by you/)
  assert.is((await get('/ns/team-b/vmcp/gateway-of-team-b', cookie)).status, 404)
  assert.match(page, 'system:serviceaccount:team-a:ada')
  assert.not.match(page, mintToken('team-a', 'ada').slice(0, 40))
})

test('a viewer who may not list namespaces can type them', async () => {
  const { cookie } = await logIn(mintToken('team-b', 'bob'))
  assert.equal(await names(cookie), [])
  assert.match(await (await fetch(`${served.url}/`, { headers: { cookie } })).text(), 'You may not list namespaces')
  const answer = await fetch(`${served.url}/namespaces?names=team-b,kube-system,%3Cimg%3E`, {
    headers: { cookie },
    redirect: 'manual',
  })
  const typed = answer.headers
    .getSetCookie()
    .filter((one) => !one.includes('Max-Age=0'))
    .map((one) => one.split(';')[0])
    .join('; ')
  assert.equal(await names(typed), ['gateway-of-team-b'])
})

test('requests of two viewers in turn never mix', async () => {
  const ada = (await logIn(mintToken('team-a', 'ada'))).cookie
  const bob = (await logIn(mintToken('team-b', 'bob'))).cookie
  for (let times = 0; times < 10; times++) {
    const requests = Array.from({ length: 100 }, (_, index) => names(index % 2 === 0 ? ada : bob))
    for (const [index, found] of (await Promise.all(requests)).entries())
      assert.equal(found, index % 2 === 0 ? ['gateway-of-team-a'] : [])
  }
})

test('a token that the cluster refuses gets a page of its own, and a changed cookie leads to the login', async () => {
  const { answer } = await logIn('eyJhbGciOiJub25lIn0.e30.x')
  assert.is(answer.status, 401, await answer.clone().text())
  assert.match(await answer.text(), 'does not accept this token')
  const { cookie } = await logIn(mintToken('team-a', 'ada'))
  const at = cookie.length - 20
  const changed = cookie.slice(0, at) + (cookie[at] === 'A' ? 'B' : 'A') + cookie.slice(at + 1)
  const refused = await fetch(`${served.url}/workloads?q=x`, { headers: { cookie: changed }, redirect: 'manual' })
  assert.equal([refused.status, refused.headers.get('location')], [303, '/login?to=%2Fworkloads%3Fq%3Dx'])
  assert.equal(await (await get('/', changed)).json(), {
    error: 'session_ended',
    message: 'The session has ended; log in again.',
  })
})

test('another replica serves the session, also one with a newer key', async () => {
  const { cookie } = await logIn(mintToken('team-a', 'ada'))
  assert.equal(await names(cookie, second.url), ['gateway-of-team-a'])
})

test('a login ends at a path of the console, whatever the link says', async () => {
  const token = mintToken('team-a', 'ada')
  for (const to of [
    '//evil.example',
    '/\\evil.example',
    '/%2f..',
    '/%5cevil',
    'https://evil.example',
    '/login',
    '/a\nb',
    'javascript:x',
  ])
    assert.is((await logIn(token, to)).answer.headers.get('refresh'), '0;url=/', to)
  assert.is((await logIn(token, '/workloads?q=a')).answer.headers.get('refresh'), '0;url=/workloads?q=a')
})

test('a token in a header counts only from a trusted proxy', async () => {
  const token = mintToken('team-a', 'ada')
  const headers = { 'x-forwarded-id-token': token, accept: 'application/json' }
  const trusting = await serve('three', `${common('key')}login: {proxy: {trustedProxies: [127.0.0.0/8]}}\n`)
  const wary = await serve('four', `${common('key')}login: {proxy: {trustedProxies: [10.0.0.0/8]}}\n`)
  try {
    assert.is((await fetch(`${trusting.url}/`, { headers })).status, 200)
    assert.is((await fetch(`${trusting.url}/`, { headers: { accept: 'application/json' } })).status, 401)
    assert.is((await fetch(`${wary.url}/`, { headers: { ...headers, 'x-forwarded-for': '10.0.0.1' } })).status, 403)
  } finally {
    await trusting.close()
    await wary.close()
  }
})

test('every request at the API server is the viewer’s own, and none asks for a Secret', () => {
  const requests = plane.requests().filter(({ agent }) => agent === 'portico-console')
  for (const viewer of VIEWERS)
    assert.ok(
      requests.some(({ resource, user }) => resource === 'virtualmcpservers' && user === viewer),
      viewer,
    )
  // A request whose token is refused has no user.
  assert.equal(
    requests.filter(({ user, code }) => !VIEWERS.includes(user) && code !== 401),
    [],
  )
  assert.equal(
    requests.filter(({ resource }) => resource === 'secrets'),
    [],
  )
})

test('the shipped viewer role allows reports and explanations, and usage needs the second role', async () => {
  plane.kubectl(['apply', '--server-side', '-k', join(import.meta.dirname, '../../../operator/deploy/viewers')])
  plane.apply(serviceAccount('eve', 'team-a'))
  const bind = (role: string) => plane.apply(buildBinding('ClusterRole', role, 'team-a', 'eve'))
  const may = (verb: string, subresource: string, namespace = 'team-a') =>
    plane.may('system:serviceaccount:team-a:eve', verb, 'vmcp', { namespace, subresource })
  const rights = () => [may('list', ''), may('get', 'live'), may('create', 'explain'), may('get', 'usage')]
  assert.equal(rights(), [false, false, false, false])
  const accessPage = async (space: string, user: string) => {
    const { cookie } = await logIn(mintToken(space, user))
    return (await fetch(`${served.url}/ns/team-a/vmcp/gateway-of-team-a/access`, { headers: { cookie } })).text()
  }
  // ada's role only allows reading objects.
  const lacking = await accessPage('team-a', 'ada')
  assert.match(
    lacking,
    'kubectl auth can-i create virtualmcpservers.portico.dev/gateway-of-team-a --subresource=explain --namespace team-a',
  )
  assert.not.match(lacking, 'name="claims"')
  // The API server learns of a binding a moment after it is written.
  bind('portico-viewer')
  await eventually('the viewer role applies', () => may('get', 'live'))
  assert.equal(rights(), [true, true, true, false])
  plane.kubectl(['create', 'clusterrolebinding', 'names-of-eve', '--clusterrole=names', '--serviceaccount=team-a:eve'])
  // Each login is a new viewer, of whom nothing is cached.
  await eventually('the form is there', async () => (await accessPage('team-a', 'eve')).includes('name="claims"'))
  bind('portico-usage-viewer')
  await eventually('the second role applies', () => may('get', 'usage'))
  assert.equal(rights(), [true, true, true, true])
  assert.is(may('get', 'live', 'team-b'), false)
})

test('34: Prometheus is only queried for workloads that the viewer may read, whatever the query says', async () => {
  const asked: string[] = []
  const credentials: (string | undefined)[] = []
  const prometheus = createServer(
    endFileOnError(async (request: IncomingMessage, response: ServerResponse) => {
      credentials.push(request.headers.authorization, request.headers.cookie)
      for await (const chunk of request) asked.push(new URLSearchParams(String(chunk)).get('query') ?? '')
      response.end('{"status":"success","data":{"result":[]}}')
    }),
  )
  await new Promise<void>((resolve) => prometheus.listen(0, '127.0.0.1', resolve))
  const prometheusUrl = `http://127.0.0.1:${(prometheus.address() as AddressInfo).port}`
  const counting = await serve(
    'counting',
    `${common('key')}login: {token: {}}\nmetrics: {prometheusUrl: "${prometheusUrl}"}\n`,
  )
  try {
    const { cookie } = await logIn(mintToken('team-a', 'ada'))
    const theirs = await get('/ns/team-b/vmcp/gateway-of-team-b/usage', cookie, counting.url)
    assert.is(theirs.status, 404)
    assert.equal(asked, [])
    const queries = [
      '',
      'ns=team-b&name=gateway-of-team-b',
      'by=backend&service_namespace=team-b',
      'by=tool"} or {x="y',
    ]
    for (const query of queries)
      await get(`/ns/team-a/vmcp/gateway-of-team-a/usage?${encodeURI(query)}`, cookie, counting.url)
    assert.is(asked.length, queries.length)
    assert.equal([...new Set(credentials)], [undefined])
    for (const query of asked) {
      assert.match(query, 'target_info{service_namespace="team-a",service_name="gateway-of-team-a"}')
      assert.not.match(query, 'team-b')
    }
  } finally {
    await counting.close()
    prometheus.closeAllConnections()
    prometheus.close()
  }
})

test('42: the pod of the shipped console has no token, and its account has no more rights than any other', async () => {
  const namespace = 'portico-system'
  plane.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'portico-console', namespace } })
  isShipped = true
  plane.kubectl(['apply', '-f', SHIPPED])
  plane.apply(serviceAccount('nobody', namespace))
  const pods = () => plane.list('pods', { namespace, labels: 'app.kubernetes.io/name=portico-console' })
  // The admitted pod, because the API server adds a token to every pod that does not opt out.
  await eventually('the pod is there', () => pods().length === 1)
  const text = JSON.stringify(pods()[0]?.spec)
  assert.match(text, '"serviceAccountName":"portico-console"')
  assert.not.match(text, 'serviceAccountToken')
  assert.not.match(text, '/var/run/secrets')
  const readRights = (account: string) =>
    plane.kubectl([
      'auth',
      'can-i',
      '--list',
      '-n',
      'portico-system',
      `--as=system:serviceaccount:portico-system:${account}`,
    ])
  const rights = readRights('portico-console')
  assert.match(rights, 'selfsubjectaccessreviews')
  assert.is(rights, readRights('nobody'))
})

test('a wrong file is refused with every finding', async () => {
  for (const [config, finding] of [
    ['publicUrl: http://console.example.com\nlogin: {token: {}}\n', '/publicUrl'],
    ['publicUrl: https://c.example\nlogin: {token: {}, proxy: {trustedProxies: [10.0.0.0/8]}}\n', '/login'],
    ['publicUrl: https://c.example\nlogin: {}\n', '/login'],
    ['publicUrl: https://c.example\nlogin: {token: {}}\nsurprise: 1\n', '/surprise'],
    ['publicUrl: https://c.example\nlogin: {token: {}}\nchanges: apply\n', '/changes'],
  ] as const)
    try {
      await (await serve('wrong', config)).close()
      assert.unreachable(config)
    } catch (error) {
      assert.match((error as Error).message, finding)
    }
})

test.run()
