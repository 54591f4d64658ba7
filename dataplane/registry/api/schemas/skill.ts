import Type from 'typebox'
import { icons, text, version } from './server-json.ts'

/** The location of a skill's files: an image or a folder of a git repository. */
const packages = Type.Array(
  Type.Unsafe<object>({
    type: 'object',
    required: ['registryType'],
    discriminator: { propertyName: 'registryType' },
    oneOf: [
      {
        type: 'object',
        required: ['identifier'],
        properties: {
          registryType: { const: 'oci' },
          identifier: text('The image.', 2048),
          digest: text('Its digest.', 255),
          mediaType: text('Its media type.', 255),
        },
      },
      {
        type: 'object',
        required: ['url'],
        properties: {
          registryType: { const: 'git' },
          url: text('URL of the repository.', 2048),
          ref: text('Branch or tag.', 255),
          commit: text('Commit.', 64),
          subfolder: text('Its folder in the repository.', 1024),
        },
      },
    ],
  }),
  { maxItems: 64 },
)

/** A skill as it may be published. */
export const skillJson = Type.Object(
  {
    namespace: Type.String({
      pattern: '^[a-zA-Z0-9.-]+$',
      minLength: 3,
      maxLength: 128,
      examples: ['com.example'],
    }),
    name: Type.String({ pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$', maxLength: 64, examples: ['write-tests'] }),
    description: text('The purpose of the skill.', 1024),
    version,
    $schema: Type.Optional(Type.String({ format: 'uri', maxLength: 2048 })),
    status: Type.Optional(Type.Enum(['active', 'deprecated', 'archived'], { type: 'string' })),
    title: Type.Optional(text('Display name.', 100)),
    license: Type.Optional(text('SPDX expression or a name.', 256)),
    compatibility: Type.Optional(text('Its requirements.', 500)),
    allowedTools: Type.Optional(Type.Array(text('Name of a tool.', 255), { maxItems: 256 })),
    repository: Type.Optional(
      Type.Object({
        url: Type.String({ format: 'uri', maxLength: 2048 }),
        type: Type.Optional(text('git or another.', 64)),
      }),
    ),
    icons: Type.Optional(icons),
    packages: Type.Optional(packages),
    metadata: Type.Optional(Type.Unsafe<object>({ type: 'object', description: 'Further metadata.' })),
    _meta: Type.Optional(Type.Unsafe<object>({ type: 'object', description: 'Extensions, by reverse DNS name.' })),
  },
  { description: 'A skill.' },
)
