/** Checks that the operator writes what the data plane reads: the same schema, rules and hash. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse } from 'yaml'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import { checkRegistry } from '../../../dataplane/config/check/registry.ts'
import { type GatewayConfig, gatewayConfigSchema } from '../../../dataplane/config/gateway.ts'
import { configParser } from '../../../dataplane/config/read/parse.ts'
import { registryConfigSchema } from '../../../dataplane/config/registry.ts'
import { canonicalYaml } from '../../../operator/render/object/canonical.ts'
import { condition, configText, findChild, plansOfText } from '../../support/operator/plans.ts'

const folder = new URL('../golden/', import.meta.url)
const parsers: Record<string, (text: string) => unknown> = {
  'gateway.yaml': configParser(gatewayConfigSchema, checkGateway),
  'registry.yaml': configParser(registryConfigSchema, checkRegistry),
}

test('every rendered configuration is accepted by the data plane, under the hash that the operator knows', () => {
  const seen = new Set<string>()
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.in.yaml'))) {
    for (const [object, plan] of plansOfText(readFileSync(new URL(name, folder), 'utf8'))) {
      if (plan.children === 'hold' || plan.children.length === 0) continue
      const { data, metadata } = findChild(plan, 'ConfigMap') as unknown as {
        data: Record<string, string>
        metadata: { annotations: Record<string, string> }
      }
      for (const [file, text] of Object.entries(data)) {
        seen.add(file)
        parsers[file]?.(text)
        const hash = `sha256:${createHash('sha256').update(text).digest('hex')}`
        assert.is(metadata.annotations['portico.dev/config-hash'], hash, object)
        assert.is(plan.status['configHash'], hash, object)
      }
    }
  }
  assert.equal([...seen].sort(), ['gateway.yaml', 'registry.yaml'])
})

test('texts that YAML could misread keep their value', () => {
  const value = { a: ['no', '1.0', 'null', '0x10', '~', '', ' x ', 'a: b', '# c', '*d', '2026-11-20', 'é\n\tü', '-'] }
  const parse = configParser({ type: 'object' } as never)
  assert.equal(parse(canonicalYaml(value)), value)
  const long = { text: `${'word '.repeat(200)}end` }
  assert.equal(parse(canonicalYaml(long)), long)
})

test('a long configuration is JSON, which the data plane reads at once, with a line for each backend', () => {
  const members = (count: number) =>
    Array.from(
      { length: count },
      (_, i) =>
        `kind: MCPServerEntry\nmetadata: {name: member-${i}}\nspec: {remoteUrl: "https://example.com/${i}", transport: streamable-http, groupRef: {name: g}}\n`,
    )
  const renderText = (count: number) => {
    const gateway =
      'kind: VirtualMCPServer\nmetadata: {name: it}\nspec: {groupRef: {name: g}, incomingAuth: {type: anonymous}}\n'
    const manifests = ['kind: MCPGroup\nmetadata: {name: g}\nspec: {}\n', gateway, ...members(count)].join('---\n')
    const configMap = findChild(plansOfText(manifests).get('VirtualMCPServer/it'), 'ConfigMap')
    return (configMap as unknown as { data: Record<string, string> }).data['gateway.yaml'] as string
  }
  const [short, long] = [renderText(2), renderText(800)]
  assert.match(short, /^name: it$/m)
  const parse = parsers['gateway.yaml'] as (text: string) => { backends: readonly { name: string }[] }
  const [few, many] = [parse(short), parse(long)]
  assert.is(many.backends.length, 800)
  assert.equal({ ...many, backends: many.backends.slice(0, 2) }, few)
  assert.equal(parse(JSON.stringify(JSON.parse(long))), many)
  assert.is(long.split('\n').filter((line) => /^ {2}\{"name":"member-\d+".*\},?$/.test(line)).length, 800)
})

test('only the names and the address of the Service are served', () => {
  const text = 'kind: MCPServer\nmetadata: {name: it, namespace: team}\nspec: {image: x, transport: streamable-http}'
  const config = parsers['gateway.yaml']?.(
    Object.values(
      (findChild(plansOfText(text).get('MCPServer/it'), 'ConfigMap') as unknown as { data: object }).data,
    )[0],
  ) as { allowedHosts: string[] }
  assert.equal(config.allowedHosts, ['mcp-it', 'mcp-it.team', 'mcp-it.team.svc', 'mcp-it.team.svc.cluster.local'])
})

test('a proxy behind an Ingress gets its prefix, and trusts the headers of the Ingress if no URL is set', () => {
  const spec = 'remoteUrl: https://example.com/mcp, endpointPrefix: /team/, trustProxyHeaders: true'
  const known = 'allowedHosts: [tools.example.com]'
  const idp = 'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://i.example}}'
  const planWith = (more: string) => {
    const text = `${idp}\n---\nkind: MCPRemoteProxy\nmetadata: {name: it}\nspec: {${spec}, ${known}${more}}`
    const plan = plansOfText(text).get('MCPRemoteProxy/it')
    return { ...(parse(configText(plan)) as GatewayConfig), url: plan?.status['url'], plan }
  }
  const plain = planWith('')
  assert.is(plain.endpointPrefix, '/team')
  assert.is(plain.trustProxyHeaders, true)
  assert.is(plain.resourceUrl, 'http://mcprp-it.default.svc.cluster.local:8080/team/mcp')
  assert.is(plain.url, plain.resourceUrl)
  assert.is(condition(plain.plan, 'ProxyHeadersWarning'), undefined)
  const written = planWith(', oidcConfigRef: {name: idp, audience: a, resourceUrl: https://tools.example.com/x/mcp}')
  assert.is(written.resourceUrl, 'https://tools.example.com/x/mcp')
  assert.is(written.trustProxyHeaders, undefined, 'a URL that is written down needs no headers')
})

test.run()
