/** Checks that credentials that can't work, or would be sent to the wrong server, are reported before anything is sent. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import type { BackendConfig, GatewayConfig } from '../../../dataplane/config/gateway.ts'

type Credential = NonNullable<BackendConfig['credential']>
type Exchange = NonNullable<Credential['tokenExchange']>

const oidc = { type: 'oidc' as const, oidc: { issuer: 'https://i.example', audience: 'a' } }

/** Returns the findings without the pointer to the credential. */
function findings(credential: unknown, incomingAuth: GatewayConfig['incomingAuth'] = oidc): readonly string[] {
  const backend = { name: 'api', url: 'https://b.example/mcp', credential: credential as Credential }
  const config: GatewayConfig = { name: 'g', namespace: 'n', role: 'gateway', incomingAuth, backends: [backend] }
  return checkGateway(config).map(({ pointer }) => pointer.replace('/backends/0/credential', ''))
}

const exchange = (more: Partial<Exchange> = {}) => ({
  type: 'tokenExchange',
  tokenExchange: { tokenUrl: 'https://i.example/token', ...more },
})
const xaa = {
  idpTokenUrl: 'https://i.example/t',
  targetTokenUrl: 'https://t.example/t',
  targetAudience: 'https://t.example',
}
const all: readonly unknown[] = [
  exchange(),
  { type: 'upstreamInject', upstreamInject: { providerName: 'corp' } },
  { type: 'xaa', xaa },
  { type: 'awsSts', awsSts: { region: 'eu-west-1', fallbackRoleArn: 'arn:aws:iam::123456789012:role/a' } },
]

test('a credential for each caller needs callers who log in', () => {
  for (const credential of all)
    assert.equal(findings(credential, { type: 'anonymous' }), [''], JSON.stringify(credential))
})

test('tokens and secrets go over https, to loopback, or over plain http by choice', () => {
  assert.equal(findings(exchange()), [])
  for (const host of ['127.0.0.1', '[::1]', 'localhost'])
    assert.equal(findings(exchange({ tokenUrl: `http://${host}:1/t` })), [], host)
  assert.equal(findings(exchange({ tokenUrl: 'http://i.example/t', insecureAllowHTTP: true })), [])
  for (const tokenUrl of ['http://i.example/t', 'http://localhost.example/t', 'http://127.0.0.1.example/t'])
    assert.equal(findings(exchange({ tokenUrl })), ['/tokenExchange/tokenUrl'], tokenUrl)
})

test('an invalid URL, one with a user or fragment, or one with an internal address is refused', () => {
  const wrong = [
    ...['', 'i.example', 'ftp://i.example/t', 'file:///etc/passwd', 'https://', 'https://u:p@i.example/t'],
    ...['https://u@i.example/t', 'https://i.example/t#f', 'https://10.0.0.1/t', 'https://169.254.169.254/t'],
    ...['https://[fd00:ec2::254]/t', 'https://0x0a000001/t', 'https://[::ffff:10.0.0.1]/t', 'https://167772161/t'],
  ]
  for (const tokenUrl of wrong)
    assert.equal([...new Set(findings(exchange({ tokenUrl })))], ['/tokenExchange/tokenUrl'], tokenUrl)
  assert.equal(findings(exchange({ tokenUrl: 'https://10.0.0.1/t', allowPrivateIP: true })), [])
  const metadata = exchange({ tokenUrl: 'https://169.254.169.254/t', allowPrivateIP: true })
  assert.equal(findings(metadata), ['/tokenExchange/tokenUrl'])
})

test('a secret belongs to a client; a client needs none', () => {
  assert.equal(findings(exchange({ clientId: 'c' })), [])
  assert.equal(findings(exchange({ clientId: 'c', clientSecretFile: 's' })), [])
  assert.equal(findings(exchange({ clientSecretFile: 's' })), ['/tokenExchange/clientId'])
})

test('settings of another credential type are refused', () => {
  assert.equal(findings({ type: 'tokenExchange' }), ['/tokenExchange'])
  assert.equal(findings({ ...exchange(), xaa }), ['/xaa'])
  assert.equal(findings({ type: 'xaa', tokenExchange: exchange().tokenExchange }), ['/tokenExchange', '/xaa'])
})

test.run()
