import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { childOf, condition, plansOfText } from '../../../support/operator/plans.ts'

const planned = (networkPolicy: string) =>
  plansOfText(
    `kind: MCPRemoteProxy\nmetadata: {name: it}\nspec: {remoteUrl: https://example.com/mcp, networkPolicy: ${networkPolicy}}`,
  ).get('MCPRemoteProxy/it')

interface Rule {
  readonly from?: unknown
  readonly ports: readonly { readonly port: number }[]
}
const rules = (networkPolicy: string) =>
  (childOf(planned(networkPolicy), 'NetworkPolicy') as unknown as { spec: { ingress: readonly Rule[] } }).spec.ingress

const PUBLIC = 4483

test('ingressFrom is who may reach the public port, and nobody else', () => {
  const peers = '[{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]'
  const found = rules(`{ingressFrom: ${peers}}`).filter(({ ports }) => ports.some(({ port }) => port === PUBLIC))
  assert.equal(
    found.map(({ from, ports }) => ({ from, ports: ports.map(({ port }) => port) })),
    [{ from: [{ podSelector: {} }, { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }], ports: [PUBLIC] }],
  )
})

test('without it everybody may', () => {
  const found = rules('{}').filter(({ ports }) => ports.some(({ port }) => port === PUBLIC))
  assert.equal(
    found.map(({ from }) => from),
    [undefined],
  )
})

for (const [cidr, except, good] of [
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['::/0', '2001:db8::/32', true],
  ['10.0.0.0/8', '11.0.0.0/16', false],
  ['10.0.0.0/8', '10.0.0.0/8', false],
  ['10.1.0.0/16', '10.0.0.0/8', false],
  ['10.0.0.0/8', '2001:db8::/32', false],
  ['2001:db8::/32', '10.0.0.0/8', false],
] as const)
  test(`${except} ${good ? 'may' : 'may not'} be left out of ${cidr}`, () => {
    const plan = planned(`{ingressFrom: [{ipBlock: {cidr: "${cidr}", except: ["${except}"]}}]}`)
    const problem = `/spec/networkPolicy/ingressFrom/0/ipBlock/except/0 must be a part of ${cidr}`
    assert.is(condition(plan, 'Valid'), good ? 'True ConfigValid' : `False ConfigInvalid: ${problem}`)
    assert.is(plan?.children === 'hold', !good)
  })

test.run()
