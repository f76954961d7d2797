// Host cost of one call through NVIDIA's cudnn-frontend C++, for the two small shapes that `benches/gpu.rs` measures for us in the same run.
// Prints one line a figure: name, shape, microseconds on the host a call (median of windows), microseconds on the GPU a call inside a CUDA graph.
//
// Build (headers of the wheels nvidia-cudnn-frontend, nvidia-cudnn-cu13, nvidia-cuda-runtime): see README.md beside this file.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

#define OK(call)                                                                                     \
    do {                                                                                             \
        if ((int)(call) != 0) {                                                                      \
            std::fprintf(stderr, "line %d: %s failed\n", __LINE__, #call);                           \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)
#define FE_OK(call)                                                                                  \
    do {                                                                                             \
        auto status = (call);                                                                        \
        if (!status.is_good()) {                                                                     \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, status.get_message().c_str());           \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)

static void *device(size_t bytes) {
    void *p = nullptr;
    OK(cudaMalloc(&p, bytes));
    OK(cudaMemset(p, 0, bytes));
    return p;
}

template <class F>
static double host_us(F call, int calls = 200, int windows = 15) {
    for (int i = 0; i < 50; i++) call();
    OK(cudaDeviceSynchronize());
    std::vector<double> times;
    for (int w = 0; w < windows; w++) {
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; i++) call();
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls);
        OK(cudaDeviceSynchronize());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

static void build(fe::graph::Graph &graph, cudnnHandle_t handle) {
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    (void)handle;
}

static void finish(fe::graph::Graph &graph, cudnnHandle_t handle) {
    FE_OK(graph.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
}

static void report(const char *name, fe::graph::Graph &graph, cudnnHandle_t handle, std::unordered_map<Tensor, void *> pointers) {
    int64_t size = 0;
    FE_OK(graph.get_workspace_size(size));
    void *workspace = device(std::max<int64_t>(size, 16));
    std::unordered_map<int64_t, void *> by_uid;
    for (auto &entry : pointers) by_uid[entry.first->get_uid()] = entry.second;
    double by_tensor = host_us([&] { FE_OK(graph.execute(handle, pointers, workspace)); });
    double by_id = host_us([&] { FE_OK(graph.execute(handle, by_uid, workspace)); });
    std::printf("cudnn-frontend C++ %s: host %.3f us (tensor map), %.3f us (uid map)\n", name, by_tensor, by_id);
}

int main() {
    cudnnHandle_t handle;
    OK(cudnnCreate(&handle));
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudnnSetStream(handle, stream));
    std::printf("cudnn-frontend %d, cuDNN %zu\n", CUDNN_FRONTEND_VERSION, cudnnGetVersion());
    {
        const int64_t n = 1, c = 64, h = 56, k = 64, r = 3;
        fe::graph::Graph graph;
        build(graph, handle);
        auto tensor = [&](const char *name, std::vector<int64_t> dim, std::vector<int64_t> stride) {
            return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dim).set_stride(stride));
        };
        auto x = tensor("x", {n, c, h, h}, {c * h * h, 1, c * h, c});
        auto w = tensor("w", {k, c, r, r}, {c * r * r, 1, c * r, c});
        auto b = tensor("b", {1, k, 1, 1}, {k, 1, k, k});
        auto conv = graph.conv_fprop(x, w, fe::graph::Conv_fprop_attributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1}));
        auto add = graph.pointwise(conv, b, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
        auto y = graph.pointwise(add, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
        y->set_output(true);
        finish(graph, handle);
        report("conv 1x64x56x56 k64 r3", graph, handle,
               {{x, device(n * c * h * h * 2)}, {w, device(k * c * r * r * 2)}, {b, device(k * 2)}, {y, device(n * k * h * h * 2)}});
    }
    {
        const int64_t bt = 64, m = 128, n = 128, k = 64;
        fe::graph::Graph graph;
        build(graph, handle);
        auto tensor = [&](const char *name, std::vector<int64_t> dim, std::vector<int64_t> stride) {
            return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dim).set_stride(stride));
        };
        auto a = tensor("a", {bt, m, k}, {m * k, k, 1});
        auto w = tensor("w", {bt, k, n}, {k * n, n, 1});
        auto b = tensor("b", {1, 1, n}, {n, n, 1});
        auto alpha = graph.tensor(fe::graph::Tensor_attributes().set_name("alpha").set_dim({1, 1, 1}).set_stride({1, 1, 1})
                                      .set_is_pass_by_value(true).set_data_type(fe::DataType_t::FLOAT));
        auto mm = graph.matmul(a, w, fe::graph::Matmul_attributes());
        auto scaled = graph.pointwise(mm, alpha, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::MUL));
        auto add = graph.pointwise(scaled, b, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
        auto y = graph.pointwise(add, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
        y->set_output(true);
        finish(graph, handle);
        static float value = 0.5f;
        report("matmul 64x128x128x64", graph, handle,
               {{a, device(bt * m * k * 2)}, {w, device(bt * k * n * 2)}, {b, device(n * 2)}, {alpha, &value}, {y, device(bt * m * n * 2)}});
    }
    return 0;
}
