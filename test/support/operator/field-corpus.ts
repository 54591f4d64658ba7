/** Manifests in which every field that the code reads is set; tests of all fields start from them. */

const pods = `
  podTemplateSpec: {spec: {nodeSelector: {a: b}}}
  imagePullSecrets: [{name: pull}]
  serviceAccount: me
  replicas: 1
  serviceType: LoadBalancer
  service:
    externalTrafficPolicy: Local
    loadBalancerSourceRanges: [192.0.2.0/24]
    loadBalancerClass: example.com/inner
    ipFamilyPolicy: PreferDualStack
  sessionAffinity: None
  disruption: {maxUnavailable: 2}
  httpRoute: {parentRefs: [{name: public, namespace: edge, sectionName: https}], hostnames: [tools.example.com]}
  networkPolicy:
    enabled: true
    ingressFrom:
      - {podSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}
      - {namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}
      - {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}
  resources: {limits: {cpu: "1"}, requests: {memory: 1Gi}}
  resourceOverrides:
    proxyDeployment:
      labels: {a: b}
      annotations: {a: b}
      env: [{name: A, value: b}]
      imagePullSecrets: [{name: pull}]
      podTemplateMetadataOverrides: {labels: {a: b}, annotations: {a: b}}
    proxyService: {labels: {a: b}, annotations: {a: b}}`

/** A digest of a definition. */
const digest = (letter: string) => `"sha256:${letter.repeat(64)}"`

const filling = '{maxTokens: 5, refillPeriod: 10s}'
const limiting = `{shared: ${filling}, perUser: ${filling}, tools: [{name: a, shared: ${filling}, perUser: ${filling}}]}`

/** The block `audit`, with an event for its filters. */
const auditing = (event: string, more = '') =>
  `{enabled: true, logFile: /var/log/audit/a, eventTypes: [${event}], excludeEventTypes: [${event}], includeRequestData: true, includeResponseData: true, maxDataSize: 10, trustedProxies: [10.0.0.0/8]${more}}`

const counting = '{enabled: true, people: digest, days: 7}'

const proofs = '{mode: required, algs: [ES256], maxAge: 60s, nonce: required, replay: replica}'

const card =
  '{name: com.example/tools, description: d, title: t, version: 1.0.0, websiteUrl: "https://example.com", icons: [{src: "https://example.com/i.png", mimeType: image/png, sizes: [48x48], theme: dark}], repository: {url: "https://example.com/r", source: github}, url: "https://x.example.com/mcp", catalog: false}'

const proxied = `
  protocolEra: session
  pinning: {mode: report}
  audit: ${auditing('mcp_tool_call')}
  proxyPort: 9000
  cors: {origins: ["https://app.example.com"]}
  serverCard: ${card}
  groupRef: {name: tools}
  oidcConfigRef: {name: inline, audience: a, scopes: [s], resourceUrl: https://x.example.com/mcp, dpop: ${proofs}}
  telemetryConfigRef: {name: otel, serviceName: s}
  toolConfigRef: {name: short}
  externalAuthConfigRef: {name: open}
  endpointPrefix: /x
  allowedHosts: [tools.example.com]
  rateLimiting: ${limiting}
  usage: ${counting}
  sessionStorage: {provider: redis, address: "redis:6379", db: 1, keyPrefix: x, passwordRef: {name: secret, key: key}}`

const headers = `
  headerForward:
    addPlaintextHeaders: {a: b}
    addHeadersFromSecret: [{headerName: c, valueSecretRef: {name: secret, key: key}}]`

const key = '{name: secret, key: key}'
const timeouts = 'dialTimeout: 4s, readTimeout: 2s, writeTimeout: 2s'
const tls = `{caCertSecretRef: ${key}, insecureSkipVerify: true}`

/** The mutually exclusive connections to Redis, each in its own object. */
const redisWays = [
  `{addr: "redis:6379", clusterMode: true, aclUserConfig: {usernameSecretRef: ${key}, passwordSecretRef: ${key}}, tls: ${tls}, ${timeouts}}`,
  `{sentinelConfig: {masterName: m, sentinelAddrs: ["redis:26379"], db: 1}, sentinelTls: ${tls}}`,
  '{sentinelConfig: {masterName: m, sentinelService: {name: redis, namespace: x, port: 1}}}',
]
const onRedis = Object.entries({
  MCPServer: 'image: x, transport: streamable-http, trustProxyHeaders: true',
  MCPRemoteProxy: 'remoteUrl: "https://example.com/mcp", trustProxyHeaders: true',
  VirtualMCPServer: 'groupRef: {name: tools}, incomingAuth: {type: anonymous}',
})
  .flatMap(([kind, required]) =>
    redisWays.map(
      (redis, index) => `
kind: ${kind}
metadata: {name: redis-${index}}
spec: {${required}, sessionStorage: {provider: redis, redis: ${redis}}}
---`,
    ),
  )
  .join('')

const budgets = Object.entries({
  MCPServer: 'image: x, transport: streamable-http',
  MCPRemoteProxy: 'remoteUrl: "https://example.com/mcp"',
  VirtualMCPServer: 'groupRef: {name: tools}, incomingAuth: {type: anonymous}',
  MCPRegistry: 'sources: [], registries: []',
})
  .map(
    ([kind, required]) => `
kind: ${kind}
metadata: {name: budget}
spec: {${required}, disruption: {minAvailable: 50%}}
---`,
  )
  .join('')

const failures =
  '{healthCheckInterval: 20s, healthCheckTimeout: 5s, unhealthyThreshold: 2, partialFailureMode: fail, circuitBreaker: {enabled: true, failureThreshold: 2, timeout: 10s}}'

/** Policies for the users of one provider. */
const judging =
  'authzConfig: {type: inline, inline: {policies: ["permit(principal, action, resource);"], primaryUpstreamProvider: corp}}'

/** Policies for the assertions of an issuer, without bindings. */
const redemption = `
acceptedAssertionTypes: [jwt_bearer, id_jag]
replay: reusable
clients: any
subjectRules: [{name: r, subject: "beginning*", matcher: "claims.a == 'b'", allowedResources: [x], scopes: [s]}]
tenants: {claim: tid, allowed: [t]}
audTenant: t
claims: {name: name, email: email, groups: groups, groupsKept: ["g*"]}`

/** The issuers of other tokens, each with its own policies. */
const ownPolicies = `
    delegateClients: [{clientId: d, clientSecretRef: ${key}, audiences: [x], scopes: [s]}]
    spiffeTrustDomains:
      - name: near
        trustDomain: near.example.org
        methods: [spiffe_jwt]
        bundleSource: {type: file, file: {configMapName: machine, configMapKey: k.json}}
      - name: far
        trustDomain: far.example.org
        methods: [spiffe_jwt]
        bundleSource: {type: bundle_endpoint, endpoint: {url: "https://far.example.org/bundle", profile: https_web}}
    inboundGrants:
      spiffeClientAuth:
        - trustDomainRef: near
          principalPattern: spiffe://near.example.org/ns/a/*
          clientId: w
          methods: [spiffe_jwt]
          resources: [x]
          audiences: [y]
          scopes: [s]
        - {trustDomainRef: far, principalPattern: "spiffe://far.example.org/a", clientId: f, methods: [spiffe_jwt], resources: [x]}
      clientCredentials:
        clients:
          - {clientId: m, clientSecretRef: ${key}, allowedResources: [x], scopes: [s], groups: [g]}
          - {clientId: k, jwksRef: {name: machine, key: k.json}, allowedResources: [x]}
          - {clientId: u, jwksUrl: "https://outside.example.com/keys", allowedResources: [x]}
    trustedIssuers:
      - issuerUrl: https://outside.example.com
        name: outside
        expectedAudience: a
        jwksUrl: https://outside.example.com/keys
        caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
        allowPrivateIPs: true
        insecureAllowHTTP: true
        actorClaim: azp
        actorMatcher: 'claims.azp == "a"'
        allowMayAct: true
        allowedActors: [a]
        allowedDelegateClients: [d]
        jwtBearerGrant:
          maxAssertionAge: 5m
          acceptedAudiences: [a]
          defaultScopes: [a]
          subjectBindings: [{subject: s, allowedResources: [x]}]${redemption.replaceAll('\n', '\n          ')}
      - issuerUrl: https://idp.example.com
        jwtBearerGrant: {maxAssertionAge: 5m, subjectBindings: [{subject: s, allowedResources: [x]}], linkTo: corp}`

/** The same issuers, with their policies as grants. */
const grants = (linkTo: string) => `
    trustedIssuers: [{issuerUrl: https://outside.example.com, name: outside, keySource: cluster}, {issuerUrl: https://idp.example.com, name: corp}]
    inboundGrants:
      tokenExchange:
        delegateClients: [{clientId: d, clientSecretRef: ${key}, audiences: [x], scopes: [s]}]
        issuerPolicies:
          - issuerRef: outside
            expectedAudience: a
            actorClaim: azp
            actorMatcher: 'claims.azp == "a"'
            allowMayAct: true
            allowedActors: [a]
            allowedDelegateClients: [d]
      jwtBearer:
        issuerPolicies:
          - issuerRef: outside
            maxAssertionAge: 5m
            acceptedAudiences: [a]
            defaultScopes: [a]
            subjectBindings: [{subject: s, allowedResources: [x]}]${redemption.replaceAll('\n', '\n            ')}
          - {issuerRef: corp, maxAssertionAge: 5m, subjectRules: [{name: all, matcher: "true", allowedResources: [x]}]${linkTo}}`

/** Policies for clients that have not registered at an authorization server. */
const delegation = (index: number) => `
    cimd: {enabled: true, cacheMaxSize: 10, cacheFallbackTtl: 5m}${index === 0 ? ownPolicies : grants(index === 1 ? '' : ', linkTo: corp')}
    dpop: {mode: required, nonce: required}
    disableUpstreamTokenInjection: ${index === 1}`

const proxyLoggingIn = `
kind: MCPRemoteProxy
metadata: {name: logging-in}
spec: {remoteUrl: "https://example.com/mcp", oidcConfigRef: {name: logging-in, audience: a}, authServerRef: {name: logging-in-0}, ${judging}}
---`

/** Authorization servers of a gateway and of a proxy, one for each connection to Redis. */
const loggingIn = redisWays
  .map((redis, index) => {
    const server = `
    issuer: https://as.example.com
    authorizationEndpointBaseUrl: https://login.example.com
    signingKeySecretRefs: [${key}]
    hmacSecretRefs: [${key}]
    tokenLifespans: {accessTokenLifespan: 30m, refreshTokenLifespan: 100h, authCodeLifespan: 5m}
    baselineClientScopes: [openid]
    allowConfidentialClientRegistration: true
    allowPrivateKeyJWTRegistration: true
    forceConfidentialRedirectUris: ["https://app.example.com/callback"]
    insecureAllowConfidentialOverLoopbackHTTP: true
    insecureAllowHTTP: false
    storage: {type: redis, redis: ${redis}}${delegation(index)}
    ${index === 1 ? 'primaryProviders: [code, chat]' : 'primaryUpstreamProvider: corp'}
    upstreamProviders:
      - name: code
        type: oauth2
        oauth2Config:
          authorizationEndpoint: https://code.example.com/authorize
          tokenEndpoint: https://code.example.com/token
          clientId: c
          clientSecretRef: ${key}
          scopes: [repo]
          redirectUri: https://as.example.com/oauth/callback
          userInfo:
            endpointUrl: https://api.example.com/user
            httpMethod: GET
            additionalHeaders: {accept: application/x}
            fieldMapping: {subjectFields: [id], nameFields: [name], emailFields: [email]}
          tokenResponseMapping: {accessTokenPath: a.b, scopePath: a.c, refreshTokenPath: a.d, expiresInPath: a.e}
          additionalAuthorizationParams: {prompt: login}
          allowPrivateIPs: true
          insecureAllowHTTP: true
          caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
      - name: tickets
        type: key
        loginPolicy: onDemand
        tokensPer: user
        keyConfig:
          title: Tickets
          helpUrl: https://tickets.example.com/keys
          pattern: "[a-z]+"
          maxLength: 64
          headerName: X-Api-Key
          valueTemplate: "Token {key}"
          verify: {url: "https://tickets.example.com/me", method: HEAD, expectStatus: [204], timeout: 3s}
          maxLifetime: 720h
          remindBefore: 24h
      - name: chat
        type: oauth2${index === 1 ? '\n        emailDomains: [example.com]' : ''}
        oauth2Config:
          authorizationEndpoint: https://chat.example.com/authorize
          tokenEndpoint: https://chat.example.com/token
          identityFromToken: {subjectPath: a.id, namePath: a.name, emailPath: a.email}
          dcrConfig:
            registrationEndpoint: https://chat.example.com/register
            initialAccessTokenRef: ${key}
            softwareId: s
            softwareStatement: x.y.z
      - name: found
        type: oauth2
        oauth2Config:
          authorizationEndpoint: https://found.example.com/authorize
          tokenEndpoint: https://found.example.com/token
          dcrConfig: {discoveryUrl: "https://found.example.com/.well-known/oauth-authorization-server"}
      - name: later
        type: oidc
        loginPolicy: onDemand
        tokensPer: user
        oidcConfig: {issuerUrl: "https://later.example.com", clientId: l}
      - name: corp
        type: oidc
        loginPolicy: required
        oidcConfig:
          issuerUrl: https://idp.example.com
          clientId: c
          clientSecretRef: ${key}
          scopes: [openid]
          redirectUri: https://as.example.com/oauth/callback
          subjectClaim: oid
          userInfoOverride:
            endpointUrl: https://api.example.com/user
            httpMethod: GET
            additionalHeaders: {accept: application/x}
            fieldMapping: {subjectFields: [id], nameFields: [name], emailFields: [email]}
          additionalAuthorizationParams: {prompt: login}
          allowPrivateIPs: true
          insecureAllowHTTP: true
          caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}`
    return `
kind: VirtualMCPServer
metadata: {name: logging-in-${index}}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: oidc, audience: a, oidcConfigRef: {name: logging-in}, dpop: ${proofs}, ${judging}}
  authServerConfig:${server}
  authServerUpstreamFilter: {claim: groups, rules: [{groups: [eng], upstreamProviders: [found]}], defaultUpstreams: [found]}
---
kind: MCPExternalAuthConfig
metadata: {name: logging-in-${index}}
spec:
  type: embeddedAuthServer
  embeddedAuthServer:${server}
---
kind: MCPServer
metadata: {name: logging-in-${index}}
spec: {image: x, transport: streamable-http, oidcConfigRef: {name: logging-in, audience: a}, authServerRef: {name: logging-in-${index}}, ${judging}}
---${index > 0 ? '' : proxyLoggingIn}`
  })
  .join('')

/** Policies in each form that is not in one of the larger objects below. */
const guarded = Object.entries({
  MCPServer: ['image: x, transport: streamable-http', ''],
  MCPRemoteProxy: ['remoteUrl: "https://example.com/mcp"', ''],
  VirtualMCPServer: ['groupRef: {name: tools}', 'incomingAuth: {type: anonymous, '],
})
  .flatMap(([kind, [required, opening = '']]) => {
    const policies = `["permit(principal, action, resource);"]`
    const forms = [
      `authzConfig: {type: inline, inline: {policies: ${policies}, entitiesJson: "[ ]"}, groupClaimName: g, roleClaimName: r, groupEntityType: Team}`,
      'authzConfig: {configMap: {name: policies, key: authz.json}}',
      'authzConfigRef: {name: policies}',
    ]
    return forms.map(
      (form, index) => `
kind: ${kind}
metadata: {name: guarded-${index}}
spec: {${required}, ${opening}${form}${opening && '}'}}
---`,
    )
  })
  .join('')

const failing = { action: 'retry', retryCount: 2, retryDelay: '10s' }
const asking = {
  type: 'elicitation',
  message: 'Really?',
  schema: { type: 'object', properties: { really: { type: 'boolean' } } },
  onDecline: { action: 'continue' },
  onCancel: { action: 'continue' },
}
const stepping = { condition: 'true', timeout: '10s', defaultResults: { text: 'a' }, onError: failing }

/** A workflow with all fields; `prefix` in its names and in those of its tools distinguishes two workflows. */
const workflow = (prefix: string) =>
  JSON.stringify({
    name: `${prefix}-flow`,
    description: 'd',
    parameters: { type: 'object', properties: { list: { type: 'array' } } },
    timeout: '10m',
    annotations: { title: 't', readOnlyHint: true, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    steps: [
      { type: 'tool', id: 'one', tool: `${prefix}.a`, arguments: { a: 'b' }, ...stepping },
      { id: 'ask', dependsOn: ['one'], ...asking },
      {
        type: 'forEach',
        id: 'each',
        collection: '{{.params.list}}',
        itemVar: 'entry',
        maxIterations: 5,
        maxParallel: 2,
        step: { type: 'tool', id: 'inner', tool: `${prefix}.b`, arguments: { a: 'b' }, ...stepping },
      },
      { type: 'forEach', id: 'asks', collection: '{{.params.list}}', step: asking },
    ],
    output: {
      properties: {
        a: {
          type: 'string',
          description: 'd',
          value: '{{.steps.one.output.text}}',
          default: 'x',
        },
        b: { type: 'object', properties: { c: { type: 'string', value: 'd' } } },
      },
      required: ['a'],
    },
  })

/** Returns manifests that set every field of every kind that the code reads, all of which are served. */
export const fieldCorpus = `${onRedis}${loggingIn}${guarded}${budgets}
kind: MCPAuthzConfig
metadata: {name: policies}
spec: {type: cedarv1, config: {policies: ["permit(principal, action, resource);"]}}
---
kind: ConfigMap
metadata: {name: policies}
data: {authz.json: '{"policies": ["permit(principal, action, resource);"]}'}
---
kind: MCPServer
metadata: {name: server}
spec:
  image: x
  transport: streamable-http
  proxyMode: streamable-http
  mcpPort: 9001
  args: [a]
  env: [{name: A, value: b}]
  secrets: [{name: secret, key: key, targetEnvName: B}]
  proxyResources: {limits: {cpu: "1"}, requests: {memory: 1Gi}}
  permissionProfile: {type: configmap, name: profile, key: profile.json}
  backendReplicas: 1${proxied}${pods}
---
kind: ConfigMap
metadata: {name: profile}
data: {profile.json: '{"network": {"outbound": {"allow_port": [443]}}}'}
---
kind: MCPRemoteProxy
metadata: {name: proxy}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
  allowPrivateEndpoint: true${headers}${proxied}${pods}
---
kind: MCPServerEntry
metadata: {name: entry}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
  protocolEra: stateless
  pinning: {mode: report}
  allowPrivateEndpoint: true${headers}
---
kind: MCPPin
metadata: {name: server}
spec:
  targetRef: {kind: MCPServer, name: server}
  instructions: {digests: [${digest('a')}]}
  tools: [{name: a, digests: [${digest('a')}, ${digest('b')}]}]
  prompts: [{name: a, digests: [${digest('a')}]}]
  resources: [{uri: "file:///a", digests: [${digest('a')}]}]
  resourceTemplates: [{uriTemplate: "file:///{a}", digests: [${digest('a')}]}]
  pages: [{uri: "ui://a", digests: [${digest('a')}]}]
  unlisted: {tools: allow, prompts: allow, resources: bare, resourceTemplates: allow, instructions: allow, pages: allow}
---
kind: MCPGroup
metadata: {name: tools}
spec: {description: Tools.}
---
kind: VirtualMCPServer
metadata: {name: gateway}
spec:
  groupRef: {name: tools}
  incomingAuth:
    type: oidc
    audience: a
    oidcConfigRef: {name: inline, audience: a, scopes: [s], resourceUrl: https://x.example.com/mcp}
    scopeRules: [{name: writing, tools: ["a_*"], scopes: [write]}]
    scopeImplies: [{scope: admin, implies: [write]}]
  outgoingAuth:
    source: inline
    default: {type: externalAuthConfigRef, externalAuthConfigRef: {name: open}}
    backends: {stranger: {type: externalAuthConfigRef, externalAuthConfigRef: {name: open}}}
  serverCard: ${card}
  telemetryConfigRef: {name: otel, serviceName: s}
  passthroughHeaders: [x-tenant]
  allowedHosts: [tools.example.com]
  sessionStorage: {provider: redis, address: "redis:6379", db: 1, keyPrefix: x, passwordRef: {name: secret, key: key}}
  config:
    name: n
    groupRef: tools
    cors: {origins: ["https://app.example.com"]}
    catalogGate:
      mode: enforce
      match: name
      onUnavailable: close
      maxStale: 2h
      registries:
        - name: house
          registryRef: {name: registry, namespace: catalogs}
          registry: main
          serviceAccountAudience: registry
        - name: other
          url: https://registry.example.com
          registry: main
          tokenSecretRef: {name: secret, key: key}
          caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
    rateLimiting: ${limiting}
    usage: ${counting}
    pinning: {mode: report, unpinnedBackends: withhold}
    optimizer:
      maxToolsToReturn: 5
      embeddingProvider: openai
      embeddingService: https://embeddings.example.com
      embeddingModel: m
      embeddingServiceTimeout: 5s
      embeddingHeaders: {x-team: a}
      embeddingApiKeySecretRef: {name: secret, key: key}
      embeddingAllowPrivateIP: true
      hybridSearchSemanticRatio: "0.4"
      semanticDistanceThreshold: "0.9"
    compositeTools: [${workflow('own')}]
    compositeToolRefs: [{name: flow}]
    passthroughHeaders: [x-request]
    aggregation:
      conflictResolution: prefix
      conflictResolutionConfig: {prefixFormat: "{workload}."}
      defaultToolVisibility: allow
      excludeAllTools: true
      skills: [{workload: server, filter: [a], excludeAll: true}]
      tools:
        - workload: server
          filter: [a]
          excludeAll: true
          toolConfigRef: {name: short}
          overrides:
            a:
              name: b
              description: d
              annotations: {title: t, readOnlyHint: true, destructiveHint: true, idempotentHint: true, openWorldHint: true}
    audit: ${auditing('mcp_tool_call', ', component: c, detectApplicationErrors: false, maxDelegationDepth: 3')}
    operational: {logLevel: debug, timeouts: {default: 10s, perWorkload: {server: 20s}}, failureHandling: ${failures}}${pods}
---
kind: VirtualMCPServer
metadata: {name: inline}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
  outgoingAuth: {source: inline, backends: {secured: {type: discovered}, with-injected: {type: discovered}, with-aws-of-login: {type: discovered}, with-cross-app-of-login: {type: discovered}, with-named-subject: {type: discovered}}}
  config:
    sessionStorage: {provider: redis, address: "redis:6379", db: 1, keyPrefix: x}
    aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [server]}}
---
kind: VirtualMCPCompositeToolDefinition
metadata: {name: flow}
spec: ${workflow('shared')}
---
kind: MCPExternalAuthConfig
metadata: {name: open}
spec: {type: unauthenticated}
---
kind: MCPExternalAuthConfig
metadata: {name: header}
spec: {type: headerInjection, headerInjection: {headerName: X-Key, valueSecretRef: {name: secret, key: key}}}
---
kind: MCPExternalAuthConfig
metadata: {name: exchange}
spec:
  type: tokenExchange
  tokenExchange:
    tokenUrl: https://idp.example.com/token
    audience: a
    clientId: c
    clientSecretRef: {name: secret, key: key}
    scopes: [s]
    subjectTokenType: jwt
    externalTokenHeaderName: X-Token
    caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
    allowPrivateIP: true
    insecureAllowHTTP: true
---
kind: MCPRemoteProxy
metadata: {name: with-exchange}
spec:
  remoteUrl: https://example.com/mcp
  oidcConfigRef: {name: private, audience: a}
  externalAuthConfigRef: {name: exchange}
---
kind: MCPRemoteProxy
metadata: {name: privately}
spec:
  remoteUrl: https://example.com/mcp
  oidcConfigRef: {name: private, audience: a}
  externalAuthConfigRef: {name: private-exchange}
---
kind: MCPExternalAuthConfig
metadata: {name: private-exchange}
spec: {type: tokenExchange, tokenExchange: {tokenUrl: "http://10.0.0.1/token", allowPrivateIP: true, insecureAllowHTTP: true}}
---
kind: MCPExternalAuthConfig
metadata: {name: bearer}
spec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: secret, key: key}}}
---
kind: MCPServerEntry
metadata: {name: with-header}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: header}
---
kind: MCPRemoteProxy
metadata: {name: with-bearer}
spec: {remoteUrl: "https://example.com/mcp", groupRef: {name: tools}, externalAuthConfigRef: {name: bearer}}
---
kind: MCPExternalAuthConfig
metadata: {name: injected}
spec: {type: upstreamInject, upstreamInject: {providerName: later}}
---
kind: MCPExternalAuthConfig
metadata: {name: named-subject}
spec: {type: tokenExchange, tokenExchange: {tokenUrl: "https://idp.example.com/token", subjectProviderName: later}}
---
kind: MCPExternalAuthConfig
metadata: {name: cross-app}
spec:
  type: xaa
  xaa:
    idpTokenUrl: https://idp.example.com/token
    idpClientId: c
    idpClientSecretRef: {name: secret, key: key}
    targetTokenUrl: https://target.example.com/token
    targetClientId: t
    targetClientSecretRef: {name: secret, key: key}
    targetAudience: https://target.example.com
    targetResource: https://target.example.com/mcp
    scopes: [s]
    subjectTokenType: urn:ietf:params:oauth:token-type:id_token
---
kind: MCPExternalAuthConfig
metadata: {name: cross-app-of-login}
spec:
  type: xaa
  xaa:
    idpTokenUrl: https://idp.example.com/token
    targetTokenUrl: http://target.example.com/token
    targetAudience: https://target.example.com
    subjectProviderName: later
    insecureTargetTokenUrl: true
---
kind: MCPRemoteProxy
metadata: {name: with-cross-app}
spec:
  remoteUrl: https://example.com/mcp
  oidcConfigRef: {name: inline, audience: a}
  externalAuthConfigRef: {name: cross-app}
---
kind: MCPServerEntry
metadata: {name: with-cross-app-of-login}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: cross-app-of-login}
---
kind: MCPExternalAuthConfig
metadata: {name: aws}
spec:
  type: awsSts
  awsSts:
    region: eu-west-1
    service: x
    roleClaim: roles
    sessionNameClaim: email
    sessionDuration: 900
    fallbackRoleArn: arn:aws:iam::123456789012:role/a
    roleMappings:
      - {roleArn: arn:aws:iam::123456789012:role/b, claim: admins, priority: 1}
      - {roleArn: arn:aws:iam::123456789012:role/c, matcher: '"x" in claims.groups'}
---
kind: MCPExternalAuthConfig
metadata: {name: aws-of-login}
spec: {type: awsSts, awsSts: {region: eu-west-1, fallbackRoleArn: "arn:aws:iam::123456789012:role/a", subjectProviderName: later}}
---
kind: MCPRemoteProxy
metadata: {name: with-aws}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  oidcConfigRef: {name: inline, audience: a}
  externalAuthConfigRef: {name: aws}
---
kind: MCPServerEntry
metadata: {name: with-aws-of-login}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: aws-of-login}
---
kind: MCPServerEntry
metadata: {name: with-injected}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: injected}
---
kind: MCPServerEntry
metadata: {name: with-named-subject}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: named-subject}
---
kind: MCPServerEntry
metadata: {name: secured}
spec:
  remoteUrl: https://example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: none}
---
kind: MCPOIDCConfig
metadata: {name: inline}
spec:
  type: inline
  inline:
    issuer: https://idp.example.com
    jwksUrl: https://idp.example.com/keys
    caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
    jwksAuthTokenPath: /var/run/secrets/portico/jwks/token
    jwksAllowPrivateIP: true
    insecureAllowHTTP: true
    clientId: c
    clientSecretRef: {name: secret, key: key}
    introspectionUrl: https://idp.example.com/introspect
---
kind: MCPOIDCConfig
metadata: {name: logging-in}
spec: {type: inline, inline: {issuer: https://as.example.com}}
---
kind: MCPOIDCConfig
metadata: {name: cluster}
spec:
  type: kubernetesServiceAccount
  kubernetesServiceAccount:
    issuer: https://kubernetes.example.com
    jwksUrl: https://kubernetes.default.svc/keys
    useClusterAuth: true
    introspectionUrl: https://kubernetes.example.com/introspect
    serviceAccount: agent
    namespace: agents
---
kind: MCPOIDCConfig
metadata: {name: private}
spec: {type: inline, inline: {issuer: https://idp.example.com, protectedResourceAllowPrivateIP: true}}
---
kind: MCPServer
metadata: {name: at-home}
spec:
  image: x
  transport: streamable-http
  oidcConfigRef: {name: private, audience: a, resourceUrl: "https://10.0.0.1/mcp"}
---
kind: MCPServer
metadata: {name: in-cluster}
spec: {image: x, transport: streamable-http, oidcConfigRef: {name: cluster}}
---
kind: MCPToolConfig
metadata: {name: short}
spec:
  toolsFilter: [a]
  toolsOverride:
    c:
      name: b
      description: d
      annotations: {title: t, readOnlyHint: true, destructiveHint: true, idempotentHint: true, openWorldHint: true}
---
kind: MCPTelemetryConfig
metadata: {name: otel}
spec:
  prometheus: {enabled: true}
  openTelemetry:
    enabled: true
    endpoint: https://otel.example.com:4318
    headers: {x-team: a}
    sensitiveHeaders: [{name: h, secretKeyRef: {name: secret, key: key}}]
    resourceAttributes: {team: a}
    caBundleRef: {configMapRef: {name: otel-ca, key: bundle.pem, optional: true}}
    metrics: {enabled: true}
    tracing: {enabled: true, samplingRate: "0.5"}
---
kind: MCPRegistry
metadata: {name: fields}
spec:
  displayName: d
  audit: ${auditing('registry_read')}
  telemetry:
    serviceName: s
    prometheus: {enabled: true}
    openTelemetry:
      enabled: true
      endpoint: https://otel.example.com:4318
      headers: {x-team: a}
      sensitiveHeaders: [{name: h, secretKeyRef: {name: secret, key: key}}]
      resourceAttributes: {team: a}
      caBundleRef: {configMapRef: {name: otel-ca, key: bundle.pem, optional: true}}
      metrics: {enabled: true}
      tracing: {enabled: true, samplingRate: "0.5"}
  sources:
    - name: one
      file: {path: a.json}
      syncPolicy: {interval: 1m}
      filter: {names: {include: [a], exclude: [b]}, tags: {include: [a], exclude: [b]}}
    - {name: two, file: {path: a.json}}
    - {name: three, file: {url: "https://example.com/registry.json", timeout: 5s}}
    - {name: four, file: {data: "{}"}}
    - name: five
      git:
        repository: https://git.example.com/catalog.git
        branch: main
        path: a.json
        auth: {username: bot, passwordSecretRef: {name: secret, key: key}}
      claims: {team: red}
    - {name: six, git: {repository: "https://git.example.com/catalog.git", tag: v1}}
    - {name: seven, git: {repository: "https://git.example.com/catalog.git", commit: ${'a'.repeat(40)}}}
    - name: eight
      api:
        endpoint: https://registry.example.com
        timeout: 5s
        headers: [{name: Authorization, valueSecretRef: {name: secret, key: key}}]
    - {name: nine, managed: {}}
    - {name: ten, kubernetes: {namespaces: [a, b]}}
  registries: [{name: main, sources: [one, two, three, four, five, six, seven, eight, nine, ten], claims: {org: acme}}]
  auth:
    mode: oauth
    publicPaths: [/registry/open]
    oauth:
      resourceUrl: https://registry.example.com
      realm: r
      providers:
        - name: idp
          issuerUrl: https://idp.example.com
          audience: a
          jwksUrl: https://idp.example.com/keys
          clientId: c
          clientSecretRef: {name: secret, key: key}
          introspectionUrl: https://idp.example.com/introspect
          caBundleRef: {configMapRef: {name: ca, key: bundle.pem, optional: true}}
          allowPrivateIP: true
          insecureAllowHTTP: true
    authz:
      roles:
        superAdmin: [{role: a}]
        manageSources: [{role: b}]
        manageRegistries: [{role: c}]
        manageEntries: [{role: d}]
        readGates: [{role: e}]
      unlabelled: deny
  limits: {bodyBytes: 2048, sourceBytes: 4096, managedBytes: 8192, privateSources: allow}
  allowedHosts: [catalog.example.com]
  storage: {claimName: store}
  volumes: [{name: catalogs, emptyDir: {}}]
  volumeMounts: [{name: catalogs, mountPath: /catalogs}]
  cors: {origins: ["https://example.com"]}${pods}
---
kind: MCPRegistry
metadata: {name: shared}
spec:
  sources: [{name: one, managed: {}}]
  registries: [{name: main, sources: [one]}]
  auth: {mode: anonymous}
  database: {host: h, port: 1, user: u, database: d, sslMode: require, passwordSecretRef: {name: secret, key: key}}
  replicas: 3
---
kind: MCPRegistry
metadata: {name: pgpass}
spec:
  sources: [{name: one, managed: {}}]
  registries: [{name: main, sources: [one]}]
  auth: {mode: anonymous}
  database: {host: h, user: u, database: d}
  pgpassSecretRef: {name: secret, key: key}
---
kind: MCPRegistry
metadata: {name: by-url}
spec:
  sources: [{name: one, managed: {}}]
  registries: [{name: main, sources: [one]}]
  auth: {mode: anonymous}
  database: {urlSecretRef: {name: secret, key: key}}
---
kind: MCPRegistry
metadata: {name: mapped}
spec:
  sources: [{name: one, file: {configMapRef: {name: ca, key: bundle.pem}}}]
  registries: [{name: main, sources: [one]}]
  auth: {mode: anonymous}
---
kind: MCPRegistry
metadata: {name: text}
spec:
  configYAML: |
    {sources: [{name: disk, file: {path: a.json}}], registries: [{name: main, sources: [disk]}], auth: {mode: anonymous}}
---
kind: Secret
metadata: {name: pull}
stringData: {}
---
kind: Secret
metadata: {name: secret}
stringData: {key: a}
---
kind: ConfigMap
metadata: {name: machine}
data: {k.json: '{"keys": []}'}
---
kind: ConfigMap
metadata: {name: ca}
data: {bundle.pem: "-----BEGIN CERTIFICATE-----"}
---
kind: ConfigMap
metadata: {name: otel-ca}
data: {bundle.pem: "-----BEGIN CERTIFICATE-----"}
`
