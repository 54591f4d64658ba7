/** Checks tokens of ServiceAccounts as managed clusters issue them, with any name of the issuer. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createAuthenticate } from '../../../dataplane/identity/index.ts'
import type { PublicError } from '../../../dataplane/server/errors.ts'
import { observeNothing } from '../../../dataplane/telemetry/observe.ts'
import { refusal, startAuthServer, TestClient } from '../../support/identity/auth-server.ts'
import { type ProtectedServer, protectedGateway, protectedRegistry } from '../../support/identity/protected-servers.ts'
import { recordLog } from '../../support/kept-log.ts'
import { newCluster } from '../support/cluster.ts'
import type { ControlPlane } from '../support/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { buildNamespace, serviceAccount } from '../support/manifests.ts'

const CLOUD = 'https://oidc.cloud.example/id/42'
const LOCAL = 'https://kubernetes.default.svc.cluster.local'
const AUDIENCE = 'toolhive'

const cluster = newCluster()
let plane: ControlPlane
let verify: ReturnType<typeof gateway>

/** Returns a token of a ServiceAccount: for an audience, or for the API server. */
const token = (account: string, audience?: string, namespace = 'default') =>
  plane.token(account, namespace, audience === undefined ? {} : { audience, seconds: 3_600 })
const readIssuer = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()).iss

/** The files that a pod mounts: its own token for the API server, and the cluster's CA. */
function mount() {
  const cluster = { apiServer: plane.server, tokenFile: join(plane.directory, 'gateway-token') }
  writeFileSync(cluster.tokenFile, token('gateway'))
  return { ...cluster, caFile: join(plane.directory, 'certs/apiserver.crt') }
}

const gateway = (oidc: object = {}) =>
  createAuthenticate(
    { type: 'oidc', oidc: { audience: AUDIENCE, cluster: mount(), ...oidc } },
    { resourceMetadataUrl: () => undefined, log: recordLog().log, observe: observeNothing },
  )

const outcome = async (jwt: string, by = verify) => {
  try {
    const caller = await by(`Bearer ${jwt}`)
    return caller.kind === 'authenticated' ? caller.subject : caller.kind
  } catch (error) {
    return (error as PublicError).code
  }
}

test.before(async () => {
  plane = await cluster.bare({ controllers: false, issuers: [CLOUD] })
  plane.apply(serviceAccount('gateway'), serviceAccount('agent'))
  verify = gateway()
})

test.after(async () => {
  await verify?.close()
  await cluster.stop()
})

test('the issuer of a managed cluster is found without any rights of the pod', async () => {
  const jwt = token('agent', AUDIENCE)
  assert.is(readIssuer(jwt), CLOUD)
  assert.is(await outcome(jwt), 'system:serviceaccount:default:agent')
  assert.equal(verify.issuers(), [CLOUD])
})

test('a token for another audience is refused, and so is an account that is not allowed', async () => {
  assert.is(await outcome(token('agent')), 'unauthenticated')
  const other = gateway({ serviceAccount: { namespace: 'default', name: 'other' } })
  assert.is(await outcome(token('agent', AUDIENCE), other), 'unauthenticated')
  await other.close()
})

/** The gateway checks tokens with the API server; the registry uses its keys, which everybody may read by then. */
async function servers(): Promise<readonly ProtectedServer[]> {
  const apiGroup = 'rbac.authorization.k8s.io'
  plane.create({
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: 'everybody-reads-keys' },
    roleRef: { apiGroup, kind: 'ClusterRole', name: 'system:service-account-issuer-discovery' },
    subjects: [{ apiGroup, kind: 'Group', name: 'system:unauthenticated' }],
  })
  // kubectl as somebody without a token; it fails until the API server has learned of the binding.
  const anonymous = ['--as=system:anonymous', '--as-group=system:unauthenticated']
  await eventually(() => plane.kubectl(['get', '--raw', '/openid/v1/jwks', ...anonymous]), 'everybody reads the keys')
  const { caFile, ...cluster } = mount()
  const issuer = { issuer: CLOUD, audience: AUDIENCE, allowPrivateIP: true }
  return [
    await protectedGateway(issuer, { cluster: { ...cluster, caFile }, serviceAccount: { namespace: 'default' } }),
    await protectedRegistry({ ...issuer, caFile, jwksUrl: `${plane.server}/openid/v1/jwks` }),
  ]
}

test('a gateway and a registry accept and refuse tokens of ServiceAccounts over HTTP', async () => {
  const open = await servers()
  const jwt = token('agent', AUDIENCE)
  const [header, payload, signature = ''] = jwt.split('.')
  for (const server of open) {
    const readStatus = async (text: string) => (await server.ask(`Bearer ${text}`)).status
    assert.is(await readStatus(jwt), 200, `${server.kind} ${server.log()}`)
    assert.is(await readStatus(token('agent')), 401, 'another audience')
    assert.is(
      await readStatus(`${header}.${payload}.${signature.slice(0, -6)}AAAAAA`),
      401,
      'a signature that was changed',
    )
  }
  plane.apply(buildNamespace('elsewhere'), serviceAccount('agent', 'elsewhere'))
  const stranger = token('agent', AUDIENCE, 'elsewhere')
  const { status, challenge } = await (open[0] as ProtectedServer).ask(`Bearer ${stranger}`)
  assert.is(status, 401)
  assert.match(challenge, 'subject of the token is not allowed here')
  await Promise.all(open.map((server) => server.close()))
})

const BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

test('an authorization server redeems tokens of ServiceAccounts by the keys of the API server', async () => {
  const trusted = {
    issuerUrl: CLOUD,
    keySource: 'cluster' as const,
    jwtBearerGrant: {
      maxAssertionAge: '5m',
      subjectBindings: [
        { subject: 'system:serviceaccount:default:agent', allowedResources: ['https://tools.example/mcp'] },
      ],
    },
  }
  const server = await startAuthServer({
    authServer: { allowedAudiences: ['https://tools.example/mcp'], cluster: mount(), trustedIssuers: [trusted] },
  })
  const redeem = (assertion: string) => new TestClient(server.issuer).post('token', { grant_type: BEARER, assertion })
  try {
    const own = server.issuer
    const jwt = token('agent', own)
    const answer = await redeem(jwt)
    const { access_token: issued } = (await answer.json()) as { access_token: string }
    assert.is(answer.status, 200)
    const { sub, aud } = decodeJwt(issued)
    assert.equal([sub, aud], [`${CLOUD}#system:serviceaccount:default:agent`, 'https://tools.example/mcp'])
    assert.is(await refusal(redeem(jwt)), '400 invalid_grant', 'once')
    assert.is(await refusal(redeem(token('agent', AUDIENCE))), '400 invalid_grant', 'another audience')
    assert.is(await refusal(redeem(token('agent'))), '400 invalid_grant', 'a token for the API server')
    assert.is(await refusal(redeem(token('gateway', own))), '400 invalid_grant', 'another account')
    plane.apply(buildNamespace('other'), serviceAccount('agent', 'other'))
    assert.is(await refusal(redeem(token('agent', own, 'other'))), '400 invalid_grant', 'another namespace')
  } finally {
    await server.close()
  }
})

test('a rule admits accounts of one namespace, with the same token as often as configured', async () => {
  for (const namespace of ['a', 'b']) plane.apply(buildNamespace(namespace), serviceAccount('worker', namespace))
  const resource = 'https://tools.example/mcp'
  const matcher = 'claims["kubernetes.io"].namespace == "a"'
  const policy = (replay: 'once' | 'reusable') => ({
    issuerRef: 'cluster',
    maxAssertionAge: replay === 'once' ? '1h' : '24h',
    replay,
    subjectRules: [{ name: 'a', matcher, allowedResources: [resource], scopes: ['tools:call'] }],
  })
  for (const replay of ['reusable', 'once'] as const) {
    const server = await startAuthServer({
      authServer: {
        allowedAudiences: [resource],
        cluster: mount(),
        trustedIssuers: [{ name: 'cluster', issuerUrl: CLOUD, keySource: 'cluster' }],
        inboundGrants: { jwtBearer: { issuerPolicies: [policy(replay)] } },
      },
    })
    try {
      const readStatus = async (assertion: string) =>
        (await new TestClient(server.issuer).post('token', { grant_type: BEARER, assertion })).status
      const mintToken = (namespace: string) => token('worker', server.issuer, namespace)
      const jwt = mintToken('a')
      const statuses: number[] = []
      for (let count = 0; count < 10; count++) statuses.push(await readStatus(jwt))
      assert.equal(statuses, replay === 'once' ? [200, ...Array(9).fill(400)] : Array(10).fill(200))
      assert.is(await readStatus(mintToken('b')), 400, 'another namespace')
    } finally {
      await server.close()
    }
  }
})

test('a change of the API server’s issuer is followed, and the first of several signs', async () => {
  const before = token('agent', AUDIENCE)
  await plane.stopApiServer()
  await plane.startApiServer([LOCAL, CLOUD])
  writeFileSync(join(plane.directory, 'gateway-token'), token('gateway'))
  const jwt = token('agent', AUDIENCE)
  assert.is(readIssuer(jwt), LOCAL)
  assert.is(await outcome(jwt), 'system:serviceaccount:default:agent')
  assert.equal(verify.issuers(), [LOCAL])
  const named = gateway({ issuer: CLOUD })
  assert.is(await outcome(before, named), 'system:serviceaccount:default:agent', 'one that is named is taken too')
  await named.close()
})

test.run()
