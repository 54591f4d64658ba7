/** Compiles the check of a gateway's configuration at build time. At each start that cost 230 ms and 26 MiB. */
import { join } from 'node:path'
import { _, Ajv } from 'ajv'
import standalone from 'ajv/dist/standalone/index.js'
import type { Plugin } from 'esbuild'
import { gatewayConfigSchema } from '../../dataplane/config/gateway.ts'
import { RULES } from '../../dataplane/config/schema-violations.ts'

/** The file that the compiled check stands in for. */
export const CHECK_FILE = join(import.meta.dirname, '../../dataplane/config/read/accepts-gateway.ts')

/** The errors that the code makes for violations: two thirds of its text, and unused. */
const ERROR = /\{instancePath[,:].*\}(?=\]?;$)/gm

/** Returns JavaScript that exports `acceptsGateway`, with one function for each part: V8 compiles only those in use. */
function compileValidators(): string {
  const formats = _`{ uri: (text) => URL.canParse(text) }`
  const ajv = new Ajv({
    ...RULES,
    messages: false,
    inlineRefs: false,
    code: { source: true, esm: true, lines: true, formats },
  })
  const parts = Object.entries(gatewayConfigSchema.properties).map(([name, part]) => {
    if ('default' in part) return [name, part]
    ajv.addSchema(withoutDescriptions(part), name)
    return [name, { $ref: name }]
  })
  ajv.addSchema({ ...gatewayConfigSchema, properties: Object.fromEntries(parts) }, 'gateway')
  const code = standalone.default(ajv, { acceptsGateway: 'gateway' })
  return code.replaceAll(ERROR, '{}')
}

/** Removes descriptions from a schema, since the generated code contains the schema. */
const withoutDescriptions = (schema: object): object =>
  JSON.parse(
    JSON.stringify(schema, (key, value) => (key === 'description' && typeof value === 'string' ? undefined : value)),
  )

export const compiledValidators: Plugin = {
  name: 'validators',
  setup(builder) {
    builder.onLoad({ filter: /accepts-gateway\.ts$/ }, ({ path }) =>
      path === CHECK_FILE
        ? { contents: compileValidators(), loader: 'js', resolveDir: import.meta.dirname }
        : undefined,
    )
  },
}
