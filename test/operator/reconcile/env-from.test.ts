import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, plansOfText } from '../../support/operator/plans.ts'

/** Returns the warnings of an MCPServer with these fields besides its image. */
const warned = (spec: object, mcp: object) => {
  const given = { image: 'a:1', transport: 'streamable-http', ...spec }
  const podTemplateSpec = {
    spec: {
      containers: [
        { name: 'helper', image: 'b:1' },
        { name: 'mcp', ...mcp },
      ],
    },
  }
  const object = {
    apiVersion: 'portico.dev/v1beta1',
    kind: 'MCPServer',
    metadata: { name: 'one', namespace: 'default' },
    spec: { ...given, podTemplateSpec },
  }
  const vault = { kind: 'Secret', metadata: { name: 'vault' }, stringData: { HOST: '0.0.0.0' } }
  const plan = plansOfText(`---\n${JSON.stringify(object)}\n---\n${JSON.stringify(vault)}`).get('MCPServer/one')
  assert.ok((plan?.children?.length ?? 0) > 0, 'it is served')
  return condition(plan, 'EnvironmentWarning') ?? ''
}

const from = (...sources: object[]) => ({ envFrom: sources })
const settings = { configMapRef: { name: 'settings' } }
const vault = { secretRef: { name: 'vault' } }

test('envFrom gets a warning with the variables of the operator that hide its own', () => {
  const told = warned({}, from(settings))
  const pointer = '/spec/podTemplateSpec/spec/containers/1/envFrom'
  assert.match(told, `True EnvFromHidden: ${pointer}: `)
  assert.match(told, 'PORT, MCP_PORT, HOST')
  assert.match(warned({}, from(vault)), pointer)
})

test('the warning names only variables that the source may hold and the manifest does not set', () => {
  const variable = (name: string) => ({ name, value: '8080' })
  assert.match(warned({}, from({ ...settings, prefix: 'MCP_' })), /: MCP_PORT, if there/)
  assert.is(warned({}, from({ ...settings, prefix: 'APP_' })), '')
  assert.match(warned({}, from({ ...settings, prefix: 'APP_' }, vault)), 'PORT, MCP_PORT, HOST')
  assert.match(warned({ env: [variable('PORT')] }, from(settings)), /: MCP_PORT, HOST, if there/)
  const secrets = [{ name: 'vault', key: 'HOST' }]
  assert.match(warned({ secrets }, from(settings)), /: PORT, MCP_PORT, if there/)
  const all = ['PORT', 'MCP_PORT', 'HOST'].map(variable)
  assert.is(warned({}, { ...from(settings), env: all }), '')
})

test('there is no warning for a server that gets none of these variables', () => {
  assert.is(warned({}, {}), '')
  assert.is(warned({}, { envFrom: [] }), '')
  assert.is(warned({ transport: 'stdio' }, from(settings)), '')
})

test.run()
