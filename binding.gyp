# The addon (host side), a guest library per language (inside a cell), and two
# static programs: the keeper between them, and the sandbox service's launcher.
{
  'variables': { 'openssl_fips': '' },
  'target_defaults': {
    'cflags': ['-std=gnu11', '-O2', '-g', '-Wall', '-Wextra', '-Wformat-security', '-fvisibility=hidden', '-fno-strict-aliasing', '-fstack-protector-strong', '-U_FORTIFY_SOURCE', '-D_FORTIFY_SOURCE=2'],
    'cflags!': ['-O3', '-fno-omit-frame-pointer'],
    'defines': ['_GNU_SOURCE', 'NAPI_VERSION=9', 'CODE_JAIL_PACKAGE'],
    'ldflags': ['-Wl,-z,now', '-Wl,-z,relro', '-Wl,-z,noexecstack'],
  },
  'targets': [
    {
      'target_name': 'code_jail',
      'sources': [
        'src/addon.c', 'src/addon_body.c', 'src/addon_peer.c', 'src/addon_replace.c', 'src/addon_submit.c', 'src/addon_value.c', 'src/jail.c', 'src/engine.c', 'src/engine_timer.c', 'src/pool.c',
        'src/run.c', 'src/layers.c', 'src/backend_local.c', 'src/backend_local_place.c', 'src/backend_local_spawn.c',
        'src/backend_local_keeper.c', 'src/backend_local_cell.c', 'src/backend_local_end.c', 'src/backend_local_fault.c', 'src/wire.c',
        'src/json.c', 'src/json_scan.c', 'src/text.c', 'src/buf.c', 'src/error.c', 'src/live.c',
        'src/remote.c', 'src/remote_request.c', 'src/files.c', 'src/backend_http.c', 'src/backend_http_request.c', 'src/events.c', 'src/backend_http_failure.c',
        'src/backend_http_curl.c', 'src/backend_http_connection.c',
        'src/backend_http_trust.c', 'src/http_answer.c', 'src/peer_error.c', 'src/backend_socket.c', 'src/backend_socket_link.c', 'src/addon_open.c',
      ],
      # libcurl, its OpenSSL and nghttp2 lie within, and bind to nothing outside: Node exports symbols of the same names.
      'include_dirs': ['<!(node scripts/build-curl.js --print include)'],
      'defines': ['<!@(node scripts/build-curl.js --print defines)'],
      'libraries': ['<!@(node scripts/build-curl.js --print libs)'],
      'ldflags': ['-Wl,-z,nodelete', '-Wl,--exclude-libs,ALL', '-Wl,-Bsymbolic', '-Wl,--gc-sections'],
    },
    {
      'target_name': 'guest_node',
      'sources': ['src/guest/guest_node.c', 'src/guest/trial.c', 'src/guest/zygote.c', 'src/guest/inmate.c', 'src/guest/where.c', 'src/guest/report.c', '<!@(ls src/cell/*.c)'],
      'libraries': ['-ldl'],
    },
    {
      'target_name': 'guest_python',
      'target_conditions': [['1==1', { 'product_extension': 'so' }]],  # after addon.gypi's own
      'sources': ['src/guest/guest_python.c', 'src/guest/trial.c', 'src/guest/zygote.c', 'src/guest/inmate.c', 'src/guest/where.c', 'src/guest/report.c', '<!@(ls src/cell/*.c)'],
      'libraries': ['-ldl'],
    },
    {
      'target_name': 'code-jail-keeper',
      'type': 'executable',
      'sources': [
        'src/guest/keeper.c', 'src/guest/birth.c', 'src/guest/boot.c', 'src/guest/strict.c', 'src/guest/scratch.c', 'src/guest/watch.c', 'src/guest/closure.c', 'src/guest/ask.c',
        'src/guest/zygote.c', 'src/guest/inmate.c', 'src/guest/where.c', 'src/guest/report.c', '<!@(ls src/cell/*.c)',
      ],
      'cflags': ['-fPIE'],
      'ldflags': ['-static-pie', '-pthread'],
    },
    {
      'target_name': 'code-jail-launcher',
      'type': 'executable',
      'sources': ['src/guest/launcher.c'],
      'ldflags': ['-static'],
    },
    {
      'target_name': 'code-jail-initrd',  # of a microVM whose kernel has modules
      'type': 'executable',
      'sources': ['src/agent/initrd.c'],
      'ldflags': ['-static'],
    },
    {
      'target_name': 'code-jail-agent',  # pid 1 of a microVM
      'type': 'executable',
      'sources': ['src/agent/agent.c'],
      'ldflags': ['-static'],
    },
    {
      'target_name': 'code-jail-warden',  # starts and ends a VM's process
      'type': 'executable',
      'sources': ['src/agent/warden.c'],
      'ldflags': ['-static'],
    },
  ],
}
