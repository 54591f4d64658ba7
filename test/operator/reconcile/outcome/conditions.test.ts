import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { condition, plansOfText } from '../../../support/operator/plans.ts'

const group = 'kind: MCPGroup\nmetadata: {name: tools}\nspec: {}'
const idp =
  'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com}}'
const certificate = '"-----BEGIN CERTIFICATE-----"'

const server = (spec: string) =>
  `kind: MCPServer\nmetadata: {name: it}\nspec: {image: x, transport: streamable-http, ${spec}}`
const proxy = (spec: string) =>
  `kind: MCPRemoteProxy\nmetadata: {name: it}\nspec: {remoteUrl: https://example.com/mcp, ${spec}}`
const limited = 'rateLimiting: {shared: {maxTokens: 1, refillPeriod: 1s}}'
const external = 'kind: MCPExternalAuthConfig\nmetadata: {name: open}\nspec: {type: unauthenticated}'
const gateway = (spec: string, auth = 'type: anonymous') =>
  `kind: VirtualMCPServer\nmetadata: {name: it}\nspec: {groupRef: {name: tools}, incomingAuth: {${auth}}, ${spec}}`
const registry = (spec: string) =>
  `kind: MCPRegistry\nmetadata: {name: it}\nspec: {auth: {mode: anonymous}, registries: [{name: r, sources: [s]}], ${spec}}`

interface Case {
  readonly what: string
  readonly manifests: readonly string[]
  /** The object whose conditions are checked. */
  readonly of: string
  /** The expected conditions by type: the whole text, or its beginning before an ellipsis. */
  readonly says: Readonly<Record<string, string>>
  /** True if the children must be held. */
  readonly holds?: boolean
}

const missing: readonly Case[] = [
  {
    what: 'a missing group',
    manifests: [gateway('')],
    of: 'VirtualMCPServer/it',
    says: {
      ReferencesResolved: 'False ReferenceNotFound: MCPGroup "tools" is missing',
      Ready: 'False ReferenceNotFound: MCPGroup "tools" is missing',
      Reconciling: 'True ReferenceNotFound: MCPGroup "tools" is missing',
    },
    holds: true,
  },
  {
    what: 'a missing group of a server',
    manifests: [server('groupRef: {name: tools}')],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False ReferenceNotFound: MCPGroup "tools" is missing' },
    holds: true,
  },
  {
    what: 'a missing Secret of a variable',
    manifests: [server('secrets: [{name: s, key: k}]')],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False SecretNotFound: Secret "s" is missing' },
    holds: true,
  },
  {
    what: 'a missing key of a Secret',
    manifests: [server('secrets: [{name: s, key: k}]'), 'kind: Secret\nmetadata: {name: s}\nstringData: {other: x}'],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False SecretKeyNotFound: Secret "s" has no key "k"' },
    holds: true,
  },
  {
    what: 'a missing Secret for pulling images',
    manifests: [server('imagePullSecrets: [{name: p}]')],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False SecretNotFound: Secret "p" is missing' },
    holds: true,
  },
  {
    what: 'a missing Secret for pulling images that the overrides name',
    manifests: [proxy('resourceOverrides: {proxyDeployment: {imagePullSecrets: [{name: p}]}}')],
    of: 'MCPRemoteProxy/it',
    says: { ReferencesResolved: 'False SecretNotFound: Secret "p" is missing' },
    holds: true,
  },
  {
    what: 'a missing Secret of a header',
    manifests: [proxy('headerForward: {addHeadersFromSecret: [{headerName: x, valueSecretRef: {name: s, key: k}}]}')],
    of: 'MCPRemoteProxy/it',
    says: { ReferencesResolved: 'False SecretNotFound: Secret "s" is missing' },
    holds: true,
  },
  {
    what: 'a missing OIDC configuration',
    manifests: [server('oidcConfigRef: {name: idp, audience: a}')],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False ReferenceNotFound: MCPOIDCConfig "idp" is missing' },
    holds: true,
  },
  {
    what: 'an OIDC configuration that lacks its CA bundle',
    manifests: [
      server('oidcConfigRef: {name: idp, audience: a}'),
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, caBundleRef: {configMapRef: {name: ca}}}}',
    ],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False ConfigMapNotFound: MCPOIDCConfig "idp": ConfigMap "ca" is missing' },
    holds: true,
  },
  {
    what: 'a CA bundle without a certificate',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, caBundleRef: {configMapRef: {name: ca}}}}',
      'kind: ConfigMap\nmetadata: {name: ca}\ndata: {ca.crt: none}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid: 'True ConfigValid',
      ReferencesResolved: 'False CABundleInvalid: key "ca.crt" of ConfigMap "ca" holds no PEM certificate',
      Ready: 'False CABundleInvalid: key "ca.crt" of ConfigMap "ca" holds no PEM certificate',
    },
  },
  {
    what: 'a missing ConfigMap of a registry’s source',
    manifests: [registry('sources: [{name: s, file: {configMapRef: {name: servers}}}]')],
    of: 'MCPRegistry/it',
    says: { ReferencesResolved: 'False ConfigMapNotFound: ConfigMap "servers" is missing' },
    holds: true,
  },
  {
    what: 'a missing key of a ConfigMap',
    manifests: [
      registry('sources: [{name: s, file: {configMapRef: {name: servers}}}]'),
      'kind: ConfigMap\nmetadata: {name: servers}\ndata: {}',
    ],
    of: 'MCPRegistry/it',
    says: { ReferencesResolved: 'False ConfigMapKeyNotFound: ConfigMap "servers" has no key "registry.json"' },
    holds: true,
  },
  {
    what: 'a missing tool configuration of a backend',
    manifests: [gateway('config: {aggregation: {tools: [{workload: a, toolConfigRef: {name: short}}]}}'), group],
    of: 'VirtualMCPServer/it',
    says: { ReferencesResolved: 'False ReferenceNotFound: MCPToolConfig "short" is missing' },
    holds: true,
  },
  {
    what: 'a missing Secret of a telemetry header, and of its user',
    manifests: [
      server('telemetryConfigRef: {name: otel}'),
      'kind: MCPTelemetryConfig\nmetadata: {name: otel}\nspec: {openTelemetry: {enabled: true, sensitiveHeaders: [{name: h, secretKeyRef: {name: s, key: k}}]}}',
    ],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False SecretNotFound: MCPTelemetryConfig "otel": Secret "s" is missing' },
    holds: true,
  },
  {
    what: 'an optional CA bundle that is absent',
    manifests: [
      server('telemetryConfigRef: {name: otel}'),
      'kind: MCPTelemetryConfig\nmetadata: {name: otel}\nspec: {openTelemetry: {enabled: true, caBundleRef: {configMapRef: {name: ca, optional: true}}}}',
    ],
    of: 'MCPTelemetryConfig/otel',
    says: { Ready: 'True Ready' },
  },
  {
    what: 'a telemetry CA bundle without a name',
    manifests: [
      'kind: MCPTelemetryConfig\nmetadata: {name: otel}\nspec: {openTelemetry: {caBundleRef: {configMapRef: {key: ca.crt}}}}',
    ],
    of: 'MCPTelemetryConfig/otel',
    says: {
      Valid: 'False ConfigInvalid: /spec/openTelemetry/caBundleRef/configMapRef/name must be set',
      Ready: 'False ConfigInvalid: /spec/openTelemetry/caBundleRef/configMapRef/name must be set',
    },
  },
]

const invalid: readonly Case[] = [
  {
    what: 'an OIDC configuration that is invalid, at its user',
    manifests: [
      server('oidcConfigRef: {name: idp, audience: a}'),
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: http://idp.example.com}}',
    ],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False ReferenceInvalid: MCPOIDCConfig "idp": /spec/inline/issuer must be https…' },
    holds: true,
  },
  {
    what: 'a client secret without a client id, at its user',
    manifests: [
      server('oidcConfigRef: {name: idp, audience: a}'),
      'kind: Secret\nmetadata: {name: s}\nstringData: {k: x}',
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, clientSecretRef: {name: s, key: k}}}',
    ],
    of: 'MCPServer/it',
    says: {
      ReferencesResolved:
        'False ReferenceInvalid: MCPOIDCConfig "idp": /spec/inline/clientId must be set with clientSecretRef',
    },
    holds: true,
  },
  {
    what: 'an introspection endpoint without a client',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, introspectionUrl: https://idp.example.com/i}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: { Valid: 'False ConfigInvalid: /spec/inline/introspectionUrl needs clientSecretRef' },
    holds: false,
  },
  {
    what: 'the token file /etc/portico/cluster/token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/etc/portico/cluster/token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /etc/shadow',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/etc/shadow"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/portico/jwks/../../kubernetes.io/serviceaccount/token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/portico/jwks/../../kubernetes.io/serviceaccount/token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/portico/jwks',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/portico/jwks"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/portico/jwks/',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/portico/jwks/"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/portico/jwks//token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/portico/jwks//token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/portico/jwks/./token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/portico/jwks/./token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /run/secrets/portico/jwks/token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/run/secrets/portico/jwks/token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/portico/jwksx/token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/portico/jwksx/token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file ../cluster/token',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "../cluster/token"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the token file /var/run/secrets/kubernetes.io/serviceaccount/token/',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://idp.example.com, jwksAuthTokenPath: "/var/run/secrets/kubernetes.io/serviceaccount/token/"}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath must be a file below /var/run/secrets/portico/jwks, by its plain path, or /var/run/secrets/kubernetes.io/serviceaccount/token',
    },
    holds: false,
  },
  {
    what: 'the pod’s token for https://idp.example.com',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: "https://idp.example.com", insecureAllowHTTP: true, jwksAuthTokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath: that token is sent only to the cluster’s own API server (https://kubernetes.default.svc), and the keys are elsewhere',
    },
    holds: false,
  },
  {
    what: 'the pod’s token for https://kubernetes.default.svc.example.com',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: "https://kubernetes.default.svc.example.com", insecureAllowHTTP: true, jwksAuthTokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath: that token is sent only to the cluster’s own API server (https://kubernetes.default.svc), and the keys are elsewhere',
    },
    holds: false,
  },
  {
    what: 'policies with an annotation that would have no effect',
    manifests: [
      `kind: MCPAuthzConfig\nmetadata: {name: rules}\nspec: {type: cedarv1, config: {policies: ['@requireApproval("boss") permit(principal, action, resource);']}}`,
    ],
    of: 'MCPAuthzConfig/rules',
    says: {
      Valid:
        'False ConfigInvalid: /spec/config/policies/0: has the annotation @requireApproval, which has no effect here; only @id is supported',
    },
    holds: false,
  },
  {
    what: 'the pod’s token for https://kubernetes.default.svc@idp.example.com',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: "https://kubernetes.default.svc@idp.example.com", insecureAllowHTTP: true, jwksAuthTokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/issuer must hold no credentials; /spec/inline/jwksAuthTokenPath: that token is sent only to the cluster’s own API server (https://kubernetes.default.svc), and the keys are elsewhere',
    },
    holds: false,
  },
  {
    what: 'the pod’s token for https://kubernetes.default.svc:8443',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: "https://kubernetes.default.svc:8443", insecureAllowHTTP: true, jwksAuthTokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath: that token is sent only to the cluster’s own API server (https://kubernetes.default.svc), and the keys are elsewhere',
    },
    holds: false,
  },
  {
    what: 'the pod’s token for http://kubernetes.default.svc',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: "http://kubernetes.default.svc", insecureAllowHTTP: true, jwksAuthTokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath: that token is sent only to the cluster’s own API server (https://kubernetes.default.svc), and the keys are elsewhere',
    },
    holds: false,
  },
  {
    what: 'the pod’s token for keys elsewhere',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: https://kubernetes.default.svc, jwksUrl: https://evil.example/keys, jwksAuthTokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/inline/jwksAuthTokenPath: that token is sent only to the cluster’s own API server (https://kubernetes.default.svc), and the keys are elsewhere',
    },
    holds: false,
  },
  {
    what: 'the cluster’s keys elsewhere',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: kubernetesServiceAccount, kubernetesServiceAccount: {jwksUrl: https://evil.example/keys}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid:
        'False ConfigInvalid: /spec/kubernetesServiceAccount/jwksUrl must be at the cluster’s own API server (https://kubernetes.default.svc), or useClusterAuth false',
    },
    holds: false,
  },
  {
    what: 'a cluster that nobody is asked about',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: kubernetesServiceAccount, kubernetesServiceAccount: {useClusterAuth: false}}',
    ],
    of: 'MCPOIDCConfig/idp',
    says: {
      Valid: 'False ConfigInvalid: /spec/kubernetesServiceAccount/issuer must be set if useClusterAuth is false',
    },
    holds: false,
  },
  {
    what: 'the resource at 10.0.0.1',
    manifests: [
      gateway('', 'type: oidc, audience: a, oidcConfigRef: {name: idp, resourceUrl: "https://10.0.0.1/mcp"}'),
      group,
      idp,
    ],
    of: 'VirtualMCPServer/it',
    says: {
      Ready:
        'False ConfigInvalid: oidcConfigRef.resourceUrl: 10.0.0.1 is a private address; protectedResourceAllowPrivateIP allows it',
    },
    holds: true,
  },
  {
    what: 'the resource at [fd00::1]',
    manifests: [
      gateway('', 'type: oidc, audience: a, oidcConfigRef: {name: idp, resourceUrl: "https://[fd00::1]/mcp"}'),
      group,
      idp,
    ],
    of: 'VirtualMCPServer/it',
    says: {
      Ready:
        'False ConfigInvalid: oidcConfigRef.resourceUrl: fd00::1 is a private address; protectedResourceAllowPrivateIP allows it',
    },
    holds: true,
  },
  {
    what: 'the resource at 169.254.169.254',
    manifests: [
      gateway('', 'type: oidc, audience: a, oidcConfigRef: {name: idp, resourceUrl: "https://169.254.169.254/mcp"}'),
      group,
      idp,
    ],
    of: 'VirtualMCPServer/it',
    says: {
      Ready:
        'False ConfigInvalid: oidcConfigRef.resourceUrl: 169.254.169.254 is an address at which nothing can be served',
    },
    holds: true,
  },
  {
    what: 'no audience with an inline issuer',
    manifests: [gateway('', 'type: oidc, oidcConfigRef: {name: idp}'), group, idp],
    of: 'VirtualMCPServer/it',
    says: { Valid: 'False AudienceMissing: an audience must be set…', Stalled: 'True AudienceMissing…' },
    holds: true,
  },
  {
    what: 'two different audiences',
    manifests: [gateway('', 'type: oidc, audience: a, oidcConfigRef: {name: idp, audience: b}'), group, idp],
    of: 'VirtualMCPServer/it',
    says: { Valid: 'False AudienceConflict…' },
    holds: true,
  },
  {
    what: 'a port of the proxy in the same pod',
    manifests: [server('mcpPort: 14483')],
    of: 'MCPServer/it',
    says: { Valid: 'False PortTaken: /spec/mcpPort: the proxy in the same pod listens on 14483; choose…' },
    holds: true,
  },
  {
    what: 'more pods of the server than of its proxy',
    manifests: [server('replicas: 2, backendReplicas: 3')],
    of: 'MCPServer/it',
    says: { Valid: 'False ConfigInvalid: /spec/backendReplicas must equal replicas…' },
    holds: true,
  },
  {
    what: 'a broken pod template',
    manifests: [server('podTemplateSpec: {spec: {containers: {name: mcp}}}')],
    of: 'MCPServer/it',
    says: {
      PodTemplateValid: 'False InvalidPodTemplateSpec: podTemplateSpec /spec/containers: a list is expected here',
      Ready: 'False InvalidPodTemplateSpec: podTemplateSpec /spec/containers: a list is expected here',
      Stalled: 'True InvalidPodTemplateSpec…',
    },
    holds: true,
  },
  {
    what: 'a name that gives no Service name',
    manifests: ['kind: MCPServer\nmetadata: {name: a.b}\nspec: {image: x, transport: streamable-http}'],
    of: 'MCPServer/a.b',
    says: {
      Valid:
        'False NameInvalid: the name "a.b" contains a dot, which the name of a Service can’t have: choose another name',
    },
    holds: true,
  },
  {
    what: 'a name that is too long',
    manifests: [`kind: MCPServer\nmetadata: {name: ${'a'.repeat(60)}}\nspec: {image: x, transport: streamable-http}`],
    of: `MCPServer/${'a'.repeat(60)}`,
    says: { Valid: 'False NameInvalid: the name is longer than 59 characters…' },
    holds: true,
  },
  {
    what: 'a configuration that is too large',
    manifests: [
      registry(
        `sources: [${Array.from({ length: 64 }, (_, at) => `{name: s${at || ''}, file: {data: ${'x'.repeat(14_200)}}}`).join(', ')}]`,
      ),
    ],
    of: 'MCPRegistry/it',
    says: { Valid: 'False ConfigTooLarge: the rendered configuration has…' },
    holds: true,
  },
  {
    what: 'several replicas of a registry with its store in the pod',
    manifests: [registry('replicas: 2, sources: [{name: s, file: {path: a.json}}]')],
    of: 'MCPRegistry/it',
    says: { Valid: 'False ConfigInvalid: /spec/replicas…' },
    holds: true,
  },
  ...[
    ['{name: s, git: {repository: https://git.example.org/a, commit: 3c05d04}}', '/sources/0/git/commit must match…'],
    ['{name: s, kubernetes: {namespaces: [Team_A]}}', '/sources/0/kubernetes/namespaces/0 must match…'],
    ['{name: s, kubernetes: {namespaces: []}}', '/sources/0/kubernetes/namespaces must NOT have fewer…'],
    ['{name: s, managed: {}, claims: {"": x}}', '/sources/0/claims must not be empty…'],
  ].map(([source, finding]) => ({
    what: `a source that the registry would refuse: ${source}`,
    manifests: [registry(`sources: [${source}]`)],
    of: 'MCPRegistry/it',
    says: { Valid: `False ConfigInvalid: /spec${finding}` },
    holds: true,
  })),
  {
    what: 'a role that everybody would have',
    manifests: [
      'kind: MCPRegistry\nmetadata: {name: it}\nspec: {sources: [{name: s, managed: {}}], registries: [{name: r, sources: [s]}], auth: {mode: oauth, oauth: {providers: [{name: i, issuerUrl: https://i.example.org, audience: a}]}, authz: {roles: {superAdmin: [{}]}}}}',
    ],
    of: 'MCPRegistry/it',
    says: { Valid: 'False ConfigInvalid: /spec/auth/authz/roles/superAdmin/0 must NOT have fewer…' },
    holds: true,
  },
  {
    what: 'a configuration text that is no configuration',
    manifests: ['kind: MCPRegistry\nmetadata: {name: it}\nspec: {configYAML: "sources: 5"}'],
    of: 'MCPRegistry/it',
    says: { Valid: 'False ConfigInvalid: /spec/configYAML, line 1,…' },
    holds: true,
  },
  {
    what: 'a configuration text that sends the pod’s token to an API server of its own',
    manifests: [
      `kind: MCPRegistry\nmetadata: {name: it}\nspec:\n  configYAML: |\n    sources: [{name: s, kubernetes: {namespaces: [default], apiServer: {url: "https://evil.example", tokenFile: ../cluster/token, caFile: ../cluster/ca.crt}}}]\n    registries: [{name: r, sources: [s]}]\n    auth: {mode: anonymous}`,
    ],
    of: 'MCPRegistry/it',
    says: {
      Valid:
        'False ConfigInvalid: /spec/configYAML, line 1, /sources/0/kubernetes/apiServer/url: must be the cluster’s own, https://kubernetes.default.svc or https://kubernetes.default.svc.cluster.local',
    },
    holds: true,
  },
  {
    what: 'a configuration text that sends the token of its Kubernetes source to another registry',
    manifests: [
      `kind: MCPRegistry\nmetadata: {name: it}\nspec:\n  configYAML: |\n    sources:\n      - {name: s, kubernetes: {namespaces: [default]}}\n      - {name: t, api: {endpoint: "https://evil.example", headers: [{name: x, valueFile: ../cluster/token}]}}\n    registries: [{name: r, sources: [s, t]}]\n    auth: {mode: anonymous}`,
    ],
    of: 'MCPRegistry/it',
    says: {
      Valid:
        'False ConfigInvalid: /spec/configYAML, line 3, /sources/1/api/headers/0/valueFile: is the pod’s own token, which goes to the API server alone',
    },
    holds: true,
  },
  {
    what: 'a header that isn’t the user’s to set',
    manifests: [proxy('headerForward: {addPlaintextHeaders: {Host: example.org}}')],
    of: 'MCPRemoteProxy/it',
    says: { Valid: 'False ConfigInvalid: /spec/headerForward/addPlaintextHeaders/Host this header is set…' },
    holds: true,
  },
]

const unsupported: readonly Case[] = [
  {
    what: 'a field that is refused',
    manifests: [server('webhookConfigRef: {name: w}')],
    of: 'MCPServer/it',
    says: { Ready: 'False NotSupported: /spec/webhookConfigRef: webhooks are not supported' },
    holds: true,
  },
  {
    what: 'a refused value of a config',
    manifests: ['kind: MCPAuthzConfig\nmetadata: {name: it}\nspec: {type: httpv1, config: {}}'],
    of: 'MCPAuthzConfig/it',
    says: {
      Valid: 'False NotSupported: /spec/type: authorization by an HTTP service is not supported; use cedarv1',
      Ready: 'False NotSupported: /spec/type: authorization by an HTTP service is not supported; use cedarv1…',
    },
  },
]

const withObservation = (counts: string, spec = '') => [
  server(spec),
  `kind: Observation\nmetadata: {name: it}\nobservation: {kind: MCPServer, ${counts}}`,
]

const withRoute = (route: string) =>
  withObservation(`replicas: 1, readyReplicas: 1, route: {${route}}`, 'httpRoute: {parentRefs: [{name: public}]}')

const routes: readonly Case[] = [
  {
    what: 'a route that nobody has seen',
    manifests: withObservation('replicas: 1, readyReplicas: 1', 'httpRoute: {parentRefs: [{name: public}]}'),
    of: 'MCPServer/it',
    says: { RouteAccepted: 'Unknown NotObserved: no HTTPRoute was observed yet', Ready: 'True PodsReady…' },
    holds: false,
  },
  {
    what: 'a route that no Gateway has taken yet',
    manifests: withRoute('gateways: 1, accepted: 0, refusals: []'),
    of: 'MCPServer/it',
    says: { RouteAccepted: 'Unknown NoAnswer: 0 of 1 Gateways carry the HTTPRoute' },
  },
  {
    what: 'a route that its Gateway carries',
    manifests: withRoute('gateways: 1, accepted: 1, refusals: []'),
    of: 'MCPServer/it',
    says: { RouteAccepted: 'True RouteAccepted: 1 of 1 Gateways carry the HTTPRoute' },
  },
  {
    what: 'a route that a Gateway refuses',
    manifests: withRoute('gateways: 2, accepted: 1, refusals: [no]'),
    of: 'MCPServer/it',
    says: { RouteAccepted: 'False RouteRefused: no', Ready: 'True PodsReady…' },
    holds: false,
  },
]

const readiness: readonly Case[] = [
  {
    what: 'pods that nobody has seen',
    manifests: [server('')],
    of: 'MCPServer/it',
    says: { Ready: 'Unknown NotObserved: no pods were observed yet', Reconciling: 'True NotObserved…' },
    holds: false,
  },
  {
    what: 'pods that are ready',
    manifests: withObservation('replicas: 2, readyReplicas: 2'),
    of: 'MCPServer/it',
    says: { Ready: 'True PodsReady: 2 of 2 pods are ready' },
  },
  {
    what: 'pods on their way',
    manifests: withObservation('replicas: 2, readyReplicas: 1'),
    of: 'MCPServer/it',
    says: { Ready: 'False Progressing: 1 of 2 pods are ready', Reconciling: 'True Progressing…' },
  },
  {
    what: 'pods that fail',
    manifests: withObservation('replicas: 1, readyReplicas: 0, reason: ImagePullBackOff, message: no such image'),
    of: 'MCPServer/it',
    says: { Ready: 'False ImagePullBackOff: 0 of 1 pods are ready: no such image' },
  },
  {
    what: 'a workload scaled to zero',
    manifests: withObservation('replicas: 0, readyReplicas: 0', 'replicas: 0'),
    of: 'MCPServer/it',
    says: { Ready: 'True Stopped: scaled to zero' },
  },
  {
    what: 'a workload that an autoscaler has scaled to zero',
    manifests: withObservation('replicas: 0, readyReplicas: 0'),
    of: 'MCPServer/it',
    says: { Ready: 'True Stopped: scaled to zero' },
  },
  {
    what: 'a runtime’s reason that is no reason to the API',
    manifests: withObservation('replicas: 1, readyReplicas: 0, reason: "exit status 1", message: no'),
    of: 'MCPServer/it',
    says: { Ready: 'False PodsNotReady: 0 of 1 pods are ready: no' },
  },
  {
    what: 'a running workload that becomes invalid',
    manifests: withObservation('replicas: 1, readyReplicas: 1', 'groupRef: {name: gone}'),
    of: 'MCPServer/it',
    says: {
      Ready: 'False ReferenceNotFound: MCPGroup "gone" is missing; the running pods keep the last valid configuration',
    },
    holds: true,
  },
  {
    what: 'headers of a proxy that name no host that is answered to',
    manifests: [proxy('trustProxyHeaders: true')],
    of: 'MCPRemoteProxy/it',
    says: { ProxyHeadersWarning: 'True NoPublicHost…' },
    holds: false,
  },
  {
    what: 'several replicas with sessions in memory',
    manifests: [server('replicas: 2')],
    of: 'MCPServer/it',
    says: { SessionStorageWarning: 'True MemorySessions: each of 2 replicas keeps its sessions in its own memory…' },
    holds: false,
  },
  {
    what: 'rate limits that several replicas count each for itself',
    manifests: [server(`replicas: 2, ${limited}`)],
    of: 'MCPServer/it',
    says: {
      RateLimitWarning: 'True CountedByEachPod: each of 2 pods counts calls separately…',
      Valid: 'True ConfigValid',
    },
    holds: false,
  },
  {
    what: 'rate limits of as many pods as an autoscaler says',
    manifests: [
      proxy(limited),
      'kind: Observation\nmetadata: {name: it}\nobservation: {kind: MCPRemoteProxy, replicas: 3, readyReplicas: 3}',
    ],
    of: 'MCPRemoteProxy/it',
    says: { RateLimitWarning: 'True CountedByEachPod: each of 3 pods…' },
    holds: false,
  },
  {
    what: 'rate limits per user where nobody knows the users',
    manifests: [
      server('externalAuthConfigRef: {name: open}, rateLimiting: {perUser: {maxTokens: 1, refillPeriod: 1s}}'),
      external,
    ],
    of: 'MCPServer/it',
    says: { RateLimitWarning: 'True NoUsers: callers are anonymous…' },
    holds: false,
  },
]

const entry = (name: string, spec = '') =>
  `kind: MCPServerEntry\nmetadata: {name: ${name}}\nspec: {remoteUrl: https://${name}.example.com/mcp, transport: streamable-http, groupRef: {name: tools}, ${spec}}`

const secret = 'kind: Secret\nmetadata: {name: s}\nstringData: {k: v}'
const injected =
  'kind: MCPExternalAuthConfig\nmetadata: {name: x}\nspec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: k}}}'
const exchange =
  'kind: MCPExternalAuthConfig\nmetadata: {name: x}\nspec: {type: tokenExchange, tokenExchange: {tokenUrl: "https://idp.example/token", audience: a}}'
const unauthenticated = 'kind: MCPExternalAuthConfig\nmetadata: {name: u}\nspec: {type: unauthenticated}'

const backends: readonly Case[] = [
  {
    what: 'a group without members',
    manifests: [gateway(''), group],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'False NoBackends: the group has no members' },
    holds: false,
  },
  {
    what: 'members that all serve',
    manifests: [gateway(''), group, entry('a'), server('groupRef: {name: tools}')],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'True AllServed' },
    holds: false,
  },
  {
    what: 'a member whose credential is unavailable is left out, the gateway serves the others',
    manifests: [gateway(''), group, injected, entry('a'), entry('b', 'externalAuthConfigRef: {name: x}')],
    of: 'VirtualMCPServer/it',
    says: {
      BackendsReady:
        'False BackendsLeftOut: MCPServerEntry "b" is left out: MCPExternalAuthConfig "x": Secret "s" is missing',
      Valid: 'True ConfigValid',
    },
    holds: false,
  },
  {
    what: 'a server whose credential is unavailable is left out as well',
    manifests: [gateway(''), group, injected, server('groupRef: {name: tools}, externalAuthConfigRef: {name: x}')],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'False BackendsLeftOut: MCPServer "it" is left out: MCPExternalAuthConfig "x": …' },
    holds: false,
  },
  {
    what: 'under inline a server’s own word on its credential has no say',
    manifests: [
      gateway('outgoingAuth: {source: inline}'),
      group,
      injected,
      server('groupRef: {name: tools}, externalAuthConfigRef: {name: x}'),
    ],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'True AllServed' },
    holds: false,
  },
  {
    what: 'a server that is to be called without a credential is called',
    manifests: [
      gateway(''),
      group,
      unauthenticated,
      server('groupRef: {name: tools}, externalAuthConfigRef: {name: u}'),
    ],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'True AllServed' },
    holds: false,
  },
  {
    what: 'and so it is where the gateway says that it is',
    manifests: [
      gateway('outgoingAuth: {backends: {b: {type: externalAuthConfigRef, externalAuthConfigRef: {name: u}}}}'),
      group,
      unauthenticated,
      entry('b', 'externalAuthConfigRef: {name: none}'),
    ],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'True AllServed', Valid: 'True ConfigValid' },
    holds: false,
  },
  {
    what: 'a credential that the gateway names and can’t have',
    manifests: [
      gateway('outgoingAuth: {default: {type: externalAuthConfigRef, externalAuthConfigRef: {name: x}}}'),
      group,
      injected,
      entry('b'),
    ],
    of: 'VirtualMCPServer/it',
    says: { ReferencesResolved: 'False SecretNotFound: MCPExternalAuthConfig "x": …' },
    holds: true,
  },
  {
    what: 'a credential that waits for its key',
    manifests: [
      gateway(''),
      group,
      secret,
      injected.replace('key: k', 'key: other'),
      entry('b', 'externalAuthConfigRef: {name: x}'),
    ],
    of: 'VirtualMCPServer/it',
    says: {
      BackendsReady:
        'False BackendsLeftOut: MCPServerEntry "b" is left out: MCPExternalAuthConfig "x": Secret "s" has no key "other"',
    },
    holds: false,
  },
  {
    what: 'a credential of each caller where nobody knows who calls',
    manifests: [gateway(''), group, exchange, entry('b', 'externalAuthConfigRef: {name: x}')],
    of: 'VirtualMCPServer/it',
    says: {
      BackendsReady:
        'False BackendsLeftOut: MCPServerEntry "b" is left out: MCPExternalAuthConfig "x": a credential for each caller needs callers who log in: incomingAuth.type oidc',
    },
    holds: false,
  },
  {
    what: 'the same of a proxy that is in no group',
    manifests: [exchange, server('externalAuthConfigRef: {name: x}')],
    of: 'MCPServer/it',
    says: {
      Valid:
        'False CredentialUnusable: /spec/externalAuthConfigRef: a credential for each caller needs callers who log in: set oidcConfigRef',
    },
    holds: true,
  },
  {
    what: 'an exchange at a private address that is not allowed',
    manifests: [exchange.replace('idp.example', '10.0.0.1')],
    of: 'MCPExternalAuthConfig/x',
    says: { Valid: 'False ConfigInvalid: /spec/tokenExchange/tokenUrl 10.0.0.1 is a private address…' },
    holds: false,
  },
  {
    what: 'an exchange whose client secret is missing',
    manifests: [exchange.replace('audience: a', 'clientId: c, clientSecretRef: {name: s, key: k}')],
    of: 'MCPExternalAuthConfig/x',
    says: { ReferencesResolved: 'False SecretNotFound: Secret "s" is missing' },
    holds: false,
  },
  {
    what: 'a header for a server that takes none',
    manifests: [
      group,
      secret,
      injected,
      server('externalAuthConfigRef: {name: x}').replace('streamable-http', 'stdio'),
    ],
    of: 'MCPServer/it',
    says: { Valid: 'False CredentialUnusable: /spec/externalAuthConfigRef: a stdio server reads no headers…' },
    holds: true,
  },
  {
    what: 'a server that names a credential of no kind is served by itself, and its configuration ready',
    manifests: [group, unauthenticated, server('groupRef: {name: tools}, externalAuthConfigRef: {name: u}')],
    of: 'MCPServer/it',
    says: { Valid: 'True ConfigValid', ReferencesResolved: 'True…' },
    holds: false,
  },
  {
    what: 'a configuration of no credential is ready',
    manifests: [unauthenticated],
    of: 'MCPExternalAuthConfig/u',
    says: { Ready: 'True…', Valid: 'True…' },
    holds: false,
  },
  {
    what: 'under inline a backend that is not listed gets no credential, whatever it says',
    manifests: [gateway('outgoingAuth: {source: inline}'), group, entry('b', 'externalAuthConfigRef: {name: x}')],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'True AllServed' },
    holds: false,
  },
  {
    what: 'under inline a listed backend may still say for itself',
    manifests: [
      gateway('outgoingAuth: {source: inline, backends: {b: {type: discovered}}}'),
      group,
      entry('b', 'externalAuthConfigRef: {name: x}'),
    ],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'False BackendsLeftOut…' },
    holds: false,
  },
  {
    what: 'a credential for a stranger',
    manifests: [gateway('outgoingAuth: {backends: {nobody: {type: discovered}}}'), group, entry('a')],
    of: 'VirtualMCPServer/it',
    says: {
      BackendsReady: 'True AllServed',
      BackendNameWarning: 'True NoSuchMember: outgoingAuth.backends names "nobody", which is not a member of the group',
    },
    holds: false,
  },
  {
    what: 'a timeout of no embedding service',
    manifests: [gateway('config: {optimizer: {embeddingServiceTimeout: 1s}}'), group, entry('a')],
    of: 'VirtualMCPServer/it',
    says: {
      SettingsWarning:
        'True NoEffect: /spec/config/optimizer/embeddingServiceTimeout has no effect: it is for embeddingService',
    },
    holds: false,
  },
  {
    what: 'a claim that chooses no role',
    manifests: [
      'kind: MCPExternalAuthConfig\nmetadata: {name: x}\nspec: {type: awsSts, awsSts: {region: eu-west-1, roleClaim: roles, roleMappings: [{roleArn: "arn:aws:iam::123456789012:role/a", matcher: "true"}]}}',
    ],
    of: 'MCPExternalAuthConfig/x',
    says: {
      Valid: 'True ConfigValid',
      SettingsWarning: 'True NoEffect: /spec/awsSts/roleClaim has no effect: no entry of roleMappings has a claim',
    },
    holds: false,
  },
  {
    what: 'tools of a stranger',
    manifests: [gateway('config: {aggregation: {tools: [{workload: nobody, filter: [x]}]}}'), group, entry('a')],
    of: 'VirtualMCPServer/it',
    says: { BackendNameWarning: 'True NoSuchMember: config.aggregation.tools names "nobody"…' },
    holds: false,
  },
  {
    what: 'two members of one name',
    manifests: [gateway(''), group, entry('it'), server('groupRef: {name: tools}')],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'False BackendsLeftOut: MCPServerEntry "it" is left out: MCPServer has the same name' },
    holds: false,
  },
  {
    what: 'a member with a header that can’t be sent',
    manifests: [gateway(''), group, entry('a', 'headerForward: {addPlaintextHeaders: {Host: x}}')],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'False BackendsLeftOut: MCPServerEntry "a" is left out: /headers/Host this header is set…' },
    holds: false,
  },
  {
    what: 'a member that is invalid now and runs on: it is served',
    manifests: [
      gateway(''),
      group,
      server('groupRef: {name: tools}, secrets: [{name: gone, key: k}]'),
      'kind: Observation\nmetadata: {name: it}\nobservation: {kind: MCPServer, replicas: 1, readyReplicas: 1}',
    ],
    of: 'VirtualMCPServer/it',
    says: { BackendsReady: 'True AllServed' },
    holds: false,
  },
]

const inUse: readonly Case[] = [
  {
    what: 'a deleted config that is still used',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp, deletionTimestamp: "2026-11-20T11:00:00Z"}\nspec: {type: inline, inline: {issuer: https://idp.example.com}}',
      server('oidcConfigRef: {name: idp, audience: a}'),
    ],
    of: 'MCPOIDCConfig/idp',
    says: { DeletionBlocked: 'True StillReferenced: still used by MCPServer "it"' },
  },
  {
    what: 'a deleted and invalid config is held all the same',
    manifests: [
      'kind: MCPOIDCConfig\nmetadata: {name: idp, deletionTimestamp: "2026-11-20T11:00:00Z"}\nspec: {type: inline, inline: {issuer: http://idp.example.com}}',
      server('oidcConfigRef: {name: idp, audience: a}'),
    ],
    of: 'MCPOIDCConfig/idp',
    says: { DeletionBlocked: 'True StillReferenced…', Ready: 'False ConfigInvalid…' },
  },
  {
    what: 'an entry that uses a credential holds it',
    manifests: [
      'kind: MCPExternalAuthConfig\nmetadata: {name: x, deletionTimestamp: "2026-11-20T11:00:00Z"}\nspec: {type: unauthenticated}',
      entry('b', 'externalAuthConfigRef: {name: x}'),
    ],
    of: 'MCPExternalAuthConfig/x',
    says: { DeletionBlocked: 'True StillReferenced: still used by MCPServerEntry "b"' },
  },
]

const matches = (actual: string | undefined, expected: string) =>
  expected.endsWith('…') ? actual?.startsWith(expected.slice(0, -1)) === true : actual === expected

const inMap = (profile: unknown, spec = '') => [
  server(`permissionProfile: {type: configmap, name: p, key: k}, ${spec}`),
  `kind: ConfigMap\nmetadata: {name: p}\ndata: {k: ${JSON.stringify(JSON.stringify(profile))}}`,
]
const inProfile = (text: string) => `False ReferenceInvalid: ConfigMap "p", k: ${text}`

const profiles: readonly Case[] = [
  {
    what: 'a builtin profile that there is not',
    manifests: [server('permissionProfile: {name: constructor}')],
    of: 'MCPServer/it',
    says: {
      Valid:
        'False ConfigInvalid: /spec/permissionProfile/name must be none or network; type configmap names a ConfigMap',
    },
    holds: true,
  },
  {
    what: 'a key of a builtin profile',
    manifests: [server('permissionProfile: {name: none, key: k}')],
    of: 'MCPServer/it',
    says: { Valid: 'False ConfigInvalid: /spec/permissionProfile/key needs type configmap' },
    holds: true,
  },
  {
    what: 'a profile in a ConfigMap without a key',
    manifests: [server('permissionProfile: {type: configmap, name: p}')],
    of: 'MCPServer/it',
    says: { Valid: 'False ConfigInvalid: /spec/permissionProfile/key must be set when type is configmap' },
    holds: true,
  },
  {
    what: 'a profile whose ConfigMap is missing',
    manifests: [server('permissionProfile: {type: configmap, name: p, key: k}')],
    of: 'MCPServer/it',
    says: { ReferencesResolved: 'False ConfigMapNotFound: ConfigMap "p" is missing' },
    holds: true,
  },
  {
    what: 'a profile that is no object',
    manifests: inMap([1]),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('…') },
    holds: true,
  },
  {
    what: 'a profile with fields that mean nothing here',
    manifests: inMap({ network: { outbound: { allow_transport: ['tcp'] } } }),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('1: /network/outbound/allow_transport: unknown field') },
    holds: true,
  },
  {
    what: 'a profile with files of the host',
    manifests: inMap({ read: ['/etc'], network: {} }),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('1: /read: a pod has no access to files of the host…') },
    holds: true,
  },
  {
    what: 'a privileged profile',
    manifests: inMap({ privileged: true }),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('1: /privileged: a server never runs privileged') },
    holds: true,
  },
  {
    what: 'a profile with the network of the node',
    manifests: inMap({ network: { mode: 'host' } }),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('1: /network/mode: must be none or bridge…') },
    holds: true,
  },
  {
    what: 'a profile with callers of its own',
    manifests: inMap({ network: { inbound: { allow_host: ['localhost'] } } }),
    of: 'MCPServer/it',
    says: {
      ReferencesResolved: inProfile('1: /network/inbound: is not supported here: use networkPolicy.ingressFrom'),
    },
    holds: true,
  },
  {
    what: 'a profile with host names',
    manifests: inMap({ network: { outbound: { allow_host: ['10.0.0.1', 'api.example.com'] } } }),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('1: /network/outbound/allow_host/1: must be an address or a network…') },
    holds: true,
  },
  {
    what: 'a profile with a network that the API server would refuse',
    manifests: inMap({ network: { outbound: { allow_host: ['10.0.0.1/8'] } } }),
    of: 'MCPServer/it',
    says: { ReferencesResolved: inProfile('1: /network/outbound/allow_host/0: has bits set after its prefix…') },
    holds: true,
  },
  {
    what: 'a profile that shuts in a proxy which must reach its issuer',
    manifests: [server('permissionProfile: {name: none}, oidcConfigRef: {name: idp, audience: a}'), idp],
    of: 'MCPServer/it',
    says: {
      Valid:
        'False ProxyShutIn: /spec/permissionProfile allows no connections out of the pod, but the proxy in it must reach the issuer of tokens; list…',
    },
    holds: true,
  },
  {
    what: 'a profile that shuts in the proxy of a stdio server',
    manifests: ['kind: MCPServer\nmetadata: {name: it}\nspec: {image: x, permissionProfile: {name: none}}'],
    of: 'MCPServer/it',
    says: {
      Valid:
        'False ProxyShutIn: /spec/permissionProfile allows no connections out of the pod, but the proxy in it must reach the API server…',
    },
    holds: true,
  },
  {
    what: 'a profile that lists what an issuer has',
    manifests: [
      ...inMap({ network: { outbound: { allow_host: ['192.0.2.1'] } } }, 'oidcConfigRef: {name: idp, audience: a}'),
      idp,
    ],
    of: 'MCPServer/it',
    says: { Valid: 'True ConfigValid', ReferencesResolved: 'True AllFound' },
    holds: false,
  },
]

const tables = { profiles, missing, invalid, unsupported, routes, readiness, backends, inUse }
for (const [table, cases] of Object.entries(tables)) {
  for (const { what, manifests, of, says, holds } of cases) {
    test(`${table}: ${what}`, () => {
      const plan = plansOfText(manifests.join('\n---\n')).get(of)
      for (const [type, expected] of Object.entries(says)) {
        const actual = condition(plan, type)
        assert.ok(matches(actual, expected), `${type}: ${actual}\nexpected: ${expected}`)
      }
      if (holds !== undefined) assert.is(plan?.children === 'hold', holds, `children: ${JSON.stringify(plan?.status)}`)
    })
  }
}

test('every object has exactly one condition of type Ready', () => {
  for (const { manifests } of Object.values(tables).flat()) {
    for (const [name, plan] of plansOfText(manifests.join('\n---\n'))) {
      const ready = plan.status.conditions.filter(({ type }) => type === 'Ready')
      assert.is(ready.length, 1, name)
    }
  }
})

test('an unused config can be deleted, and its certificate is not needed', () => {
  const text = `kind: MCPOIDCConfig\nmetadata: {name: idp, deletionTimestamp: "2026-11-20T11:00:00Z"}\nspec: {type: inline, inline: {issuer: https://idp.example.com, caBundleRef: {configMapRef: {name: ca}}}}\n---\nkind: ConfigMap\nmetadata: {name: ca}\ndata: {ca.crt: ${certificate}}`
  const plan = plansOfText(text).get('MCPOIDCConfig/idp')
  assert.is(plan?.finalizer, false)
  assert.is(condition(plan, 'DeletionBlocked'), undefined)
})

test.run()
