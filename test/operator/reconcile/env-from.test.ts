import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, plansOfText } from '../../support/operator/plans.ts'

/** Returns the warnings of an MCPServer with these fields besides its image. */
const readWarning = (spec: object, mcp: object) => {
  const fields = { image: 'a:1', transport: 'streamable-http', ...spec }
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
    spec: { ...fields, podTemplateSpec },
  }
  const vault = { kind: 'Secret', metadata: { name: 'vault' }, stringData: { HOST: '0.0.0.0' } }
  const plan = plansOfText(`---\n${JSON.stringify(object)}\n---\n${JSON.stringify(vault)}`).get('MCPServer/one')
  assert.ok((plan?.children?.length ?? 0) > 0, 'it is served')
  return condition(plan, 'EnvironmentWarning') ?? ''
}

const envFrom = (...sources: object[]) => ({ envFrom: sources })
const settings = { configMapRef: { name: 'settings' } }
const vault = { secretRef: { name: 'vault' } }

test('envFrom gets a warning with the variables of the operator that hide its own', () => {
  const warning = readWarning({}, envFrom(settings))
  const pointer = '/spec/podTemplateSpec/spec/containers/1/envFrom'
  assert.match(warning, `True EnvFromHidden: ${pointer}: `)
  assert.match(warning, 'PORT, MCP_PORT, HOST')
  assert.match(readWarning({}, envFrom(vault)), pointer)
})

test('the warning names only variables that the source may hold and the manifest does not set', () => {
  const variable = (name: string) => ({ name, value: '8080' })
  assert.match(readWarning({}, envFrom({ ...settings, prefix: 'MCP_' })), /: MCP_PORT, if there/)
  assert.is(readWarning({}, envFrom({ ...settings, prefix: 'APP_' })), '')
  assert.match(readWarning({}, envFrom({ ...settings, prefix: 'APP_' }, vault)), 'PORT, MCP_PORT, HOST')
  assert.match(readWarning({ env: [variable('PORT')] }, envFrom(settings)), /: MCP_PORT, HOST, if there/)
  const secrets = [{ name: 'vault', key: 'HOST' }]
  assert.match(readWarning({ secrets }, envFrom(settings)), /: PORT, MCP_PORT, if there/)
  const all = ['PORT', 'MCP_PORT', 'HOST'].map(variable)
  assert.is(readWarning({}, { ...envFrom(settings), env: all }), '')
})

test('there is no warning for a server that gets none of these variables', () => {
  assert.is(readWarning({}, {}), '')
  assert.is(readWarning({}, { envFrom: [] }), '')
  assert.is(readWarning({ transport: 'stdio' }, envFrom(settings)), '')
})

test.run()
