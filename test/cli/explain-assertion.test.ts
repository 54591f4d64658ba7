/** Checks that `portico explain --assertion` predicts the token endpoint's answer, with the manifest of the documentation. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SignJWT } from 'jose'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { dispatch } from '../../cli/dispatch.ts'
import { deriveSubject } from '../../dataplane/authserver/provider/subject.ts'
import { temporaryFolder } from '../support/folder.ts'

const { path: folder } = temporaryFolder()
const page = readFileSync(new URL('../../docs/enterprise.md', import.meta.url), 'utf8')
const [manifest] = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const manifests = join(folder, 'manifests.yaml')
const group = 'apiVersion: portico.dev/v1beta1\nkind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n'
writeFileSync(manifests, `${group}---\n${manifest}`)

const now = Math.floor(Date.now() / 1000)
const ISSUER = 'https://tools.example.com'
const valid = {
  iss: 'https://login.example.com',
  aud: ISSUER,
  sub: 'anna',
  client_id: 'desktop',
  jti: 'j',
  iat: now,
  exp: now + 300,
  groups: ['eng-tools', 'all'],
  email: 'anna@example.com',
  name: 'Anna',
}

async function explain(claims: object | string, ...more: string[]) {
  return explainWith(manifests, claims, ...more)
}

async function explainWith(file: string, claims: object | string, ...more: string[]) {
  const assertion = join(folder, 'assertion')
  writeFileSync(assertion, typeof claims === 'string' ? claims : JSON.stringify(claims))
  let out = ''
  let err = ''
  const io = {
    out: (text: string) => void (out += text),
    err: (line: string) => void (err += `${line}\n`),
    env: {},
    stop: AbortSignal.abort(),
  }
  const code = await dispatch(['explain', file, '--assertion', assertion, ...more], io)
  return { code, out, err }
}

test('explain names the resource of a valid assertion and the rule that admits it', async () => {
  const text = `VirtualMCPServer default/tools: redeemable by engineers
  subject: https://login.example.com#anna
  resources: https://tools.example.com/mcp
  scopes: tools:call
  name: Anna
  email: anna@example.com
  groups: eng-tools
  client: desktop
  use: once
`
  for (const more of [[], ['--issuer', 'corp'], ['--issuer', valid.iss], ['--scope', 'tools:call other']])
    assert.equal(await explain(valid, ...more), { code: 0, out: text, err: '' })
  const jwt = await new SignJWT(valid)
    .setProtectedHeader({ alg: 'HS256', typ: 'oauth-id-jag+jwt' })
    .sign(Buffer.from('nobody verifies this one, which is what the text says'))
  assert.is((await explain(jwt)).out, text)
  const { out } = await explain(valid, '--output', 'json')
  assert.equal(JSON.parse(out), [
    {
      workload: 'VirtualMCPServer default/tools',
      redeemable: true,
      rules: ['engineers'],
      subject: 'https://login.example.com#anna',
      resources: ['https://tools.example.com/mcp'],
      scopes: ['tools:call'],
      claims: { name: 'Anna', email: 'anna@example.com', groups: ['eng-tools'] },
      client: 'desktop',
      once: true,
    },
  ])
})

test('explain says why an assertion is refused, as the audit log does', async () => {
  for (const [reason, change, ...more] of [
    ['no_rule', { groups: ['sales'] }],
    ['no_rule', { groups: undefined }],
    ['audience', { aud: `${ISSUER}/oauth/token` }],
    ['audience', { aud: [ISSUER, 'https://x.example'] }],
    ['issuer_spelling', { iss: 'https://login.example.com/' }],
    ['untrusted_issuer', { iss: 'https://other.example' }],
    ['untrusted_issuer', {}, '--issuer', 'other'],
    ['jti', { jti: undefined }],
    ['age', { iat: now - 700 }],
    ['age', { iat: undefined }],
    ['lifetime', { exp: now + 660 }],
    ['expired', { iat: now - 300, exp: now - 100 }],
    ['exp', { exp: undefined }],
    ['nbf', { nbf: now + 100 }],
    ['cnf', { cnf: { jkt: 'x' } }],
    ['sub', { sub: 7 }],
    ['client', { client_id: 7 }],
    ['tenant', { tenant: 't' }],
    ['authorization_details', { authorization_details: [] }],
    ['sub_id', { sub_id: { format: 'opaque', id: 'x' } }],
    ['scope', { scope: 'other' }],
    ['resource', { resource: 'https://other.example' }],
    ['groups', { groups: ['eng-tools', 7] }],
    ['groups_size', { groups: ['eng-tools', `eng-${'x'.repeat(5000)}`] }],
    ['assertion_type', { client_id: undefined }],
  ] as const) {
    const { code, out } = await explain({ ...valid, ...change }, ...more)
    assert.match(out, new RegExp(`tools: refused: ${reason}( \\(engineers\\))?: the client gets invalid_grant`), reason)
    assert.is(code, 1)
  }
  assert.is((await explain('rubbish')).code, 2)
  assert.is((await explain('[]')).code, 2)
})

test('if people also log in, the subject is that of their login, by the claim that names them', async () => {
  const linked = join(folder, 'linked.yaml')
  const providers = `    upstreamProviders:
      - {name: corp, type: oidc, oidcConfig: {issuerUrl: https://login.example.com, clientId: t, subjectClaim: oid}}
    trustedIssuers:`
  const text = manifest
    ?.replace('    trustedIssuers:', providers)
    .replace('issuerRef: corp', 'issuerRef: corp\n            linkTo: corp')
  writeFileSync(linked, `${group}---\n${text}`)
  const { code, out } = await explainWith(linked, { ...valid, oid: 'o-1' })
  assert.is(code, 0)
  assert.match(out, `subject: ${deriveSubject(ISSUER, 'corp', 'https://login.example.com', 'o-1')}\n`)
  assert.match((await explainWith(linked, valid)).out, 'subject')
  assert.is((await explainWith(linked, valid)).code, 1)
})

test('an assertion that is bound to a key is valid if the token endpoint accepts proofs', async () => {
  const withProofs = join(folder, 'proofs.yaml')
  writeFileSync(withProofs, readFileSync(manifests, 'utf8').replace(/^( *)inboundGrants:/m, '$1dpop: {}\n$&'))
  const bound = { ...valid, cnf: { jkt: 'uxRS4uKhXF6uyIDPAZ6Y1gZpUUS6iUGkJAQ8h9VRkbI' } }
  const { code, out } = await explainWith(withProofs, bound)
  assert.match(out, /\n {2}proof: of the key uxRS4uKhXF6uyIDPAZ6Y1gZpUUS6iUGkJAQ8h9VRkbI \(DPoP\)\n/)
  assert.is(code, 0)
  assert.not.match((await explainWith(withProofs, valid)).out, 'proof')
  for (const cnf of [{ 'x5t#S256': 'x' }, { jkt: 'a', 'x5t#S256': 'x' }, 'x', {}])
    assert.match((await explainWith(withProofs, { ...valid, cnf })).out, 'refused: cnf')
  assert.match((await explain(bound)).out, 'refused: cnf')
  writeFileSync(withProofs, readFileSync(withProofs, 'utf8').replace('dpop: {}', 'dpop: {mode: disabled}'))
  assert.match((await explainWith(withProofs, bound)).out, 'refused: cnf')
})

test.run()
