"""What NVIDIA's cudnn-frontend (Python) and PyTorch reach for the rows of jobs 1 and 3, to stand beside `benches/gpu.rs` in one run.

Prints one JSON line a row: microseconds a call on the GPU, as a stream of calls (`fe`, `torch`) and inside one CUDA graph of 20 calls
(`fe_graphed`, `torch_graphed`: the kernel's own time); median over event windows. Needs torch and the wheel nvidia-cudnn-frontend.
"""
import json, statistics, sys
import torch, cudnn

dev, BF = torch.device("cuda"), torch.bfloat16
torch.manual_seed(0)
BEST = "--best" in sys.argv
ONLY = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
handle = cudnn.create_handle()
F = torch.nn.functional


def use_current_stream():
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)


def gpu_us(fn, n=50, reps=15, warm=10):
    for _ in range(warm):
        fn()
    torch.cuda.synchronize()
    out = []
    for _ in range(reps):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(n):
            fn()
        b.record()
        b.synchronize()
        out.append(a.elapsed_time(b) * 1e3 / n)
    return round(statistics.median(out), 3)


def graphed_us(fn, n=20):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        use_current_stream()
        for _ in range(3):
            fn()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        use_current_stream()
        for _ in range(n):
            fn()
    use_current_stream()
    return round(gpu_us(graph.replay, n=10) / n, 3)


def tensor(g, t, name):
    return g.tensor(name=name, dim=list(t.shape), stride=list(t.stride()), data_type=cudnn.data_type.BFLOAT16)


def new_graph():
    kinds = dict(io_data_type=cudnn.data_type.BFLOAT16, intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT)
    return cudnn.pygraph(handle=handle, **kinds)


def build(g):
    g.validate()
    g.build_operation_graph()
    g.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.B, cudnn.heur_mode.FALLBACK] if BEST else [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    g.check_support()
    g.build_plans()
    return torch.empty(max(1, g.get_workspace_size()), device=dev, dtype=torch.uint8)


def best(g, pack):
    """The fastest of all plans, in a CUDA graph."""
    times = []
    for i in range(g.get_execution_plan_count()):
        try:
            g.build_plan_at_index(i)
            ws = torch.empty(max(1, g.get_workspace_size_plan_at_index(i)), device=dev, dtype=torch.uint8)
            run = lambda: g.execute_plan_at_index(pack, ws, i, handle=handle)
            run()
            torch.cuda.synchronize()
            if gpu_us(run, n=2, reps=1, warm=1) > 20_000:
                continue
            times.append((graphed_us(run), g.get_plan_name_at_index(i)))
        except Exception:
            continue
    return min(times), len(times)


def row(kind, name, run, eager, plan, g, pack):
    run()
    if BEST:
        (fastest, engine), count = best(g, pack)
        print(json.dumps(dict(kind=kind, row=name, fe_graphed=graphed_us(run), fe_best=fastest, best_plan=engine, fe_plans=count)), flush=True)
        return
    line = dict(kind=kind, row=name, fe=gpu_us(run), fe_graphed=graphed_us(run), torch=gpu_us(eager), torch_graphed=graphed_us(eager), plan=plan)
    print(json.dumps(line), flush=True)


def conv():
    for n, c, h, k, r in [(32, 64, 56, 64, 3), (32, 128, 28, 128, 3), (32, 256, 14, 256, 3), (32, 512, 7, 512, 3), (32, 256, 56, 64, 1), (1, 64, 56, 64, 3)]:
        name = f"{n}x{c}x{h}x{h} k{k} r{r}"
        if ONLY not in name:
            continue
        last = dict(memory_format=torch.channels_last)
        x = torch.randn(n, c, h, h, device=dev, dtype=BF).to(**last)
        w = (torch.randn(k, c, r, r, device=dev, dtype=BF) * 0.05).to(**last)
        b = torch.randn(1, k, 1, 1, device=dev, dtype=BF).to(**last)
        y = torch.empty(n, k, h, h, device=dev, dtype=BF).to(**last)
        p = r // 2
        g = new_graph()
        X, W, B = tensor(g, x, "x"), tensor(g, w, "w"), tensor(g, b, "b")
        Y = g.relu(input=g.bias(input=g.conv_fprop(image=X, weight=W, padding=[p, p], stride=[1, 1], dilation=[1, 1]), bias=B))
        Y.set_output(True).set_dim(list(y.shape)).set_stride(list(y.stride())).set_data_type(cudnn.data_type.BFLOAT16)
        ws = build(g)
        pack = {X: x, W: w, B: b, Y: y}
        flat = b.flatten()
        row("conv_bias_relu", name, lambda: g.execute(pack, ws, handle=handle), lambda: torch.relu_(F.conv2d(x, w, flat, padding=p)), g.get_plan_name_at_index(0), g, pack)


def matmul():
    small, acts = (16, 512, 1024, 512), ["relu", "gelu", "gelu_approx_tanh", "swish"]
    rows = [(small, a, m) for a in acts for m in (True, False)]
    rows += [(s, "relu", m) for s in [(1, 4096, 4096, 4096), (1, 8192, 8192, 8192), (64, 128, 128, 64), (1, 16, 4096, 4096)] for m in (True, False)]
    eager_of = {"relu": torch.relu, "gelu": F.gelu, "gelu_approx_tanh": lambda t: F.gelu(t, approximate="tanh"), "swish": F.silu}
    for (bt, m, n, k), act, amax in rows:
        name = f"{bt}x{m}x{n}x{k} {act}{' amax' if amax else ''}"
        if ONLY not in name:
            continue
        a = torch.randn(bt, m, k, device=dev, dtype=BF)
        b = torch.randn(bt, k, n, device=dev, dtype=BF) * 0.05
        bias = torch.randn(1, 1, n, device=dev, dtype=BF)
        y = torch.empty(bt, m, n, device=dev, dtype=BF)
        largest = torch.zeros(1, 1, 1, device=dev, dtype=torch.float32)
        alpha = torch.full((1, 1, 1), 0.5)
        g = new_graph()
        A, B, C = tensor(g, a, "a"), tensor(g, b, "b"), tensor(g, bias, "bias")
        S = g.tensor(name="alpha", dim=[1, 1, 1], stride=[1, 1, 1], is_pass_by_value=True, data_type=cudnn.data_type.FLOAT)
        Y = getattr(g, act)(input=g.add(a=g.mul(a=g.matmul(A=A, B=B), b=S), b=C))
        Y.set_output(True).set_data_type(cudnn.data_type.BFLOAT16)
        pack = {A: a, B: b, C: bias, S: alpha, Y: y}
        if amax:
            M = g.reduction(input=Y, mode=cudnn.reduction_mode.AMAX)
            M.set_output(True).set_data_type(cudnn.data_type.FLOAT).set_dim([1, 1, 1]).set_stride([1, 1, 1])
            pack[M] = largest
        ws = build(g)
        f = eager_of[act]

        def eager():
            t = f(torch.baddbmm(bias.expand(bt, m, n), a, b, alpha=0.5))
            return (t, t.abs().amax()) if amax else t

        row("matmul_epilogue", name, lambda: g.execute(pack, ws, handle=handle), eager, g.get_plan_name_at_index(0), g, pack)


use_current_stream()
print(json.dumps(dict(fe=cudnn.__version__, cudnn=cudnn.backend_version(), torch=torch.__version__, gpu=torch.cuda.get_device_name(0))))
with torch.no_grad():
    conv()
    matmul()
