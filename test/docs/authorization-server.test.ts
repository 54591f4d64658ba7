/** Runs the manifests and commands of docs/authorization-server.md and checks their documented results. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { keyFiles } from '../../dataplane/authserver/keys/key-files.ts'
import { secret } from '../secrets/watch.ts'
import { temporaryFolder } from '../support/folder.ts'
import { recordLog } from '../support/kept-log.ts'
import { condition, configText, type Plans, plansOfText } from '../support/operator/plans.ts'

const read = (name: string) => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')
const listBlocks = (name: string) =>
  [...read(name).matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
const [gateway, proxy] = listBlocks('authorization-server')
const planWith = (block = ''): Plans => plansOfText(`kind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n---\n${block}`)

test('the example gateway is valid with two replicas and keeps its state at a restart', () => {
  const plan = planWith(gateway).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plan, 'ReferencesResolved'), 'True AllFound')
  assert.is(condition(plan, 'AuthServerWarning'), undefined)
  assert.match(configText(plan), 'authServer:')
})

test('the example proxy is valid, with a warning that a restart loses its state', () => {
  const plans = planWith(proxy)
  const plan = plans.get('MCPServer/wiki')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.is(condition(plans.get('MCPExternalAuthConfig/wiki-login'), 'Ready'), 'True Ready')
  assert.match(condition(plan, 'AuthServerWarning') ?? '', 'True NotPersistent')
  assert.match(configText(plan), /upstreamInject:\s+providerName: corp/)
})

test('the backend in authentication.md gets the token of the login', () => {
  const block = listBlocks('authentication').find((text) => text.includes('authServerConfig:'))
  const plan = planWith(block).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'BackendsReady'), 'True AllServed')
})

test('the commands create the keys', () => {
  using folder = temporaryFolder({})
  const commands = [...read('authorization-server').matchAll(/^ +(openssl .*)$/gm)].map((match) => match[1] as string)
  assert.is(commands.length, 2)
  for (const command of commands) execFileSync('sh', ['-c', command], { cwd: folder.path, stdio: 'ignore' })
  const [signing, hmac] = ['signing.pem', 'hmac'].map((name) => join(folder.path, name)) as [string, string]
  secret(readFileSync(hmac, 'utf8').trim())
  const { keys, secrets } = keyFiles({ signingKeyFiles: [signing], hmacSecretFiles: [hmac], log: recordLog().log })()
  assert.is(keys.publicKeys.length, 1)
  assert.equal(secrets, [readFileSync(hmac, 'utf8').trim()])
})

test.run()
