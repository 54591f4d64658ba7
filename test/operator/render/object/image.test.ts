import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { plansOfText } from '../../../support/operator/plans.ts'

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`

const isPinned = (image: string, more = '') =>
  plansOfText(
    `kind: MCPServer\nmetadata: {name: it}\nspec: {image: "${image}", transport: streamable-http, ${more}}`,
  ).get('MCPServer/it')?.status['imagePinned']

for (const [image, is] of [
  [`registry.example.com/a/b@${DIGEST}`, true],
  [`a:1@${DIGEST}`, true],
  ['a', false],
  ['a:1', false],
  ['registry.example.com:5000/a@b', false],
  ['a@sha256:12', false],
  [`a@${DIGEST}-x`, false],
] as const)
  test(`${image} ${is ? 'is' : 'is not'} pinned`, () => {
    assert.is(isPinned(image), is)
  })

test('the image of a pod template wins', () => {
  const template = (image: string) => `podTemplateSpec: {spec: {containers: [{name: mcp, image: "${image}"}]}}`
  assert.is(isPinned('a:1', template(`b@${DIGEST}`)), true)
  assert.is(isPinned(`a@${DIGEST}`, template('b:1')), false)
  assert.is(isPinned(`a@${DIGEST}`, 'podTemplateSpec: {spec: {containers: [{name: other, image: b}]}}'), true)
})

test.run()
