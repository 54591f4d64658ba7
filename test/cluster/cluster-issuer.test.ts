/** Tokens of ServiceAccounts, as clusters issue them that are not this rig's own: whatever their issuer is called. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createAuthenticate } from '../../dataplane/identity/index.ts'
import type { PublicError } from '../../dataplane/server/errors.ts'
import { observeNothing } from '../../dataplane/telemetry/observe.ts'
import { keptLog } from '../support/kept-log.ts'
import { type ControlPlane, startControlPlane } from './support/control-plane.ts'

const CLOUD = 'https://oidc.cloud.example/id/42'
const LOCAL = 'https://kubernetes.default.svc.cluster.local'
const AUDIENCE = 'toolhive'

let plane: ControlPlane
let verify: ReturnType<typeof gateway>

const token = (account: string, ...args: string[]) => plane.kubectl(['create', 'token', account, ...args]).trim()
const issuerOf = (jwt: string) => JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()).iss

/** What a pod mounts: its own token for the API server, and the cluster's CA. */
function mount() {
  const cluster = { apiServer: plane.server, tokenFile: join(plane.directory, 'gateway-token') }
  writeFileSync(cluster.tokenFile, token('gateway'))
  return { ...cluster, caFile: join(plane.directory, 'certs/apiserver.crt') }
}

const gateway = (oidc: object = {}) =>
  createAuthenticate(
    { type: 'oidc', oidc: { audience: AUDIENCE, cluster: mount(), ...oidc } },
    { resourceMetadataUrl: () => undefined, log: keptLog().log, observe: observeNothing },
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
  plane = await startControlPlane({ controllers: false, issuers: [CLOUD] })
  for (const name of ['gateway', 'agent']) plane.kubectl(['create', 'serviceaccount', name])
  verify = gateway()
})

test.after(async () => {
  await verify?.close()
  await plane?.stop()
})

test('the issuer of a cloud’s cluster is found, with no right of the pod’s own', async () => {
  const jwt = token('agent', `--audience=${AUDIENCE}`)
  assert.is(issuerOf(jwt), CLOUD)
  assert.is(await outcome(jwt), 'system:serviceaccount:default:agent')
  assert.equal(verify.issuers(), [CLOUD])
})

test('a token for another audience is refused, and so is who is not let in', async () => {
  assert.is(await outcome(token('agent')), 'unauthenticated')
  const other = gateway({ serviceAccount: { namespace: 'default', name: 'other' } })
  assert.is(await outcome(token('agent', `--audience=${AUDIENCE}`), other), 'unauthenticated')
  await other.close()
})

test('another issuer of the API server is followed; of several the first signs', async () => {
  const before = token('agent', `--audience=${AUDIENCE}`)
  await plane.stopApiServer()
  await plane.startApiServer([LOCAL, CLOUD])
  writeFileSync(join(plane.directory, 'gateway-token'), token('gateway'))
  const jwt = token('agent', `--audience=${AUDIENCE}`)
  assert.is(issuerOf(jwt), LOCAL)
  assert.is(await outcome(jwt), 'system:serviceaccount:default:agent')
  assert.equal(verify.issuers(), [LOCAL])
  const named = gateway({ issuer: CLOUD })
  assert.is(await outcome(before, named), 'system:serviceaccount:default:agent', 'one that is named is taken too')
  await named.close()
})

test.run()
