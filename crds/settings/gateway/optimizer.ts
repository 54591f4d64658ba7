import { inFile } from '../file-form.ts'
import { distinctHeaderKeys } from '../headers.ts'
import { limits } from '../limits.ts'
import { secretKeyRef } from '../references.ts'
import { choice, decimal, defaulted, duration, flag, integer, map, object, Type, text, url } from '../schema.ts'
import { SERVICE_TIMEOUT } from './defaults.ts'

export const optimizer = object(
  'Tool search: clients see `find_tool` and `call_tool` in place of all tools.',
  {
    embeddingProvider: defaulted(
      choice('gateway', 'Protocol of the embedding service.', ['tei', 'openai'], { default: 'tei' }),
    ),
    embeddingService: Type.Optional(url('gateway', 'Embedding service. Absent: full-text search alone.')),
    embeddingModel: Type.Optional(
      text('gateway', 'Model; vectors are kept under its name.', { min: 1, max: limits.name }),
    ),
    embeddingServiceTimeout: defaulted(duration('gateway', 'Longest wait for it.', { default: SERVICE_TIMEOUT })),
    embeddingHeaders: Type.Optional(
      map(
        'Headers of its requests.',
        text('gateway', 'The value.', { min: 1, max: limits.headerValue, pattern: '^[^\\x00-\\x1f\\x7f]*$' }),
        {
          max: 32,
          rules: [
            {
              rule: "self.all(name, name.matches('^[!#$%&*+.^_|~0-9A-Za-z-]+$') && !(name.lowerAscii() in ['authorization', 'content-type']))",
              message: 'keys must be header names other than Authorization and Content-Type',
            },
            distinctHeaderKeys,
          ],
        },
      ),
    ),
    embeddingApiKeySecretRef: Type.Optional(
      inFile('embeddingApiKeyFile', secretKeyRef('gateway', 'Its API key, sent as a bearer token.')),
    ),
    embeddingAllowPrivateIP: defaulted(
      flag(
        'gateway',
        'The service may be at a private address. Services of the cluster, by their names, may be there without this.',
        {
          default: false,
        },
      ),
    ),
    maxToolsToReturn: Type.Optional(
      integer('gateway', 'Most tools that a search returns; 8 when left out.', { minimum: 1, maximum: 50 }),
    ),
    hybridSearchSemanticRatio: Type.Optional(
      decimal('gateway', 'Weight of meaning against words, 0 to 1; 0.5 when left out.'),
    ),
    semanticDistanceThreshold: Type.Optional(
      decimal('gateway', 'Largest cosine distance of tools that are found by meaning, 0 to 2; 1.0 when left out.'),
    ),
  },
  {
    readBy: 'gateway',
    rules: [
      {
        rule: "!has(self.embeddingHeaders) || self.embeddingProvider == 'openai'",
        message: 'embeddingHeaders are for embeddingProvider openai',
      },
    ],
  },
)
