/** Checks that the manifests in docs/login-providers.md are served unchanged. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/login-providers.md', import.meta.url), 'utf8')
const all = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)
/** The complete manifests; the other blocks are parts of a spec. */
const blocks = all.filter((block) => block.includes('apiVersion:'))
const others = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n'

test('each gateway logs its users in at all of its providers', () => {
  assert.is(blocks.length, 3)
  for (const block of blocks) {
    const plan = plansOfText(`${others}---\n${block}`).get('VirtualMCPServer/tools')
    assert.is(condition(plan, 'Valid'), 'True ConfigValid')
    assert.is(condition(plan, 'ReferencesResolved') ?? 'True AllFound', 'True AllFound')
    assert.is(condition(plan, 'IdentitySynthesized'), undefined)
    for (const [, name] of block.matchAll(/^ {6}- name: (\w+)$/gm)) assert.match(configText(plan), `name: ${name}\n`)
  }
})

test('a backend whose provider is asked on demand is served', () => {
  const plan = plansOfText(`${others}---\n${blocks.find((block) => block.includes('onDemand'))}`).get(
    'VirtualMCPServer/tools',
  )
  assert.match(configText(plan), 'loginPolicy: onDemand')
  assert.match(configText(plan), /upstreamInject:\s+providerName: github/)
  assert.is(condition(plan, 'BackendsReady'), 'True AllServed')
})

test('the example of choosing providers is valid for the gateway', () => {
  const part = all.find((block) => block.includes('primaryProviders:')) ?? ''
  const [gateway = ''] = (blocks[0] ?? '').split('  authServerConfig:')
  const own = part.replace('authServerConfig:\n', 'authServerConfig:\n    issuer: https://tools.example.com\n')
  const plan = plansOfText(`${others}---\n${gateway}${own}`).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.match(configText(plan), 'partner.example')
})

test('the example of filtering providers is valid for the gateway', () => {
  const part = all.find((block) => block.includes('authServerUpstreamFilter:')) ?? ''
  const gateway = (blocks.find((block) => block.includes('onDemand')) ?? '').replaceAll(
    '        loginPolicy: onDemand\n',
    '',
  )
  const plan = plansOfText(`${others}---\n${gateway.trimEnd()}\n${part.replaceAll('chat', 'corp')}`).get(
    'VirtualMCPServer/tools',
  )
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.match(configText(plan), 'upstreamFilter:')
})

test.run()
