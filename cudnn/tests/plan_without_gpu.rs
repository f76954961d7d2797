//! A plan for an H200 from the real cuDNN, on a machine that has no GPU.

#![allow(unsafe_code, clippy::expect_used, clippy::panic, reason = "a test of the C boundary")]

use std::ffi::c_void;
use std::path::Path;

use cudnn_sys::*;
use fused_graph_cudnn::library::Library;
use fused_graph_cudnn::log;

/// Just enough of a wrapper to write the descriptors down; fails the test on any error.
struct Cudnn(&'static Api);

impl Cudnn {
    fn make(&self, kind: DescriptorType) -> Descriptor {
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the result points to a descriptor.
        let status = unsafe { (self.0.backend_create_descriptor)(kind, &mut descriptor) };
        assert!(status.is_success(), "{kind}: {status} {}", self.0.last_error());
        descriptor
    }

    fn set<T>(&self, descriptor: Descriptor, name: AttributeName, kind: AttributeType, values: &[T]) {
        let (count, values) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: the elements are of the attribute's type and there are as many as said.
        let status = unsafe { (self.0.backend_set_attribute)(descriptor, name, kind, count, values) };
        assert!(status.is_success(), "{name}: {status} {}", self.0.last_error());
    }

    fn count(&self, descriptor: Descriptor, name: AttributeName, kind: AttributeType) -> i64 {
        let mut count = 0;
        let null = std::ptr::null_mut();
        // SAFETY: no elements are asked for.
        let status = unsafe { (self.0.backend_get_attribute)(descriptor, name, kind, 0, &mut count, null) };
        assert!(status.is_success(), "{name}: {status} {}", self.0.last_error());
        count
    }

    fn finish(&self, descriptor: Descriptor) -> Result<Descriptor, Status> {
        // SAFETY: the descriptor was made here and not destroyed.
        unsafe { (self.0.backend_finalize)(descriptor) }.ok().map(|()| descriptor)
    }

    fn finished(&self, kind: DescriptorType, set: impl FnOnce(Descriptor)) -> Descriptor {
        let descriptor = self.make(kind);
        set(descriptor);
        self.finish(descriptor).unwrap_or_else(|status| panic!("{kind}: {status} {}", self.0.last_error()))
    }

    fn tensor(&self, uid: i64, dims: [i64; 3], data_type: DataType, is_virtual: bool) -> Descriptor {
        self.finished(DescriptorType::TENSOR, |tensor| {
            self.set(tensor, AttributeName::TENSOR_UNIQUE_ID, AttributeType::INT64, &[uid]);
            self.set(tensor, AttributeName::TENSOR_DATA_TYPE, AttributeType::DATA_TYPE, &[data_type]);
            self.set(tensor, AttributeName::TENSOR_DIMENSIONS, AttributeType::INT64, &dims);
            let strides = [dims[1] * dims[2], dims[2], 1];
            self.set(tensor, AttributeName::TENSOR_STRIDES, AttributeType::INT64, &strides);
            self.set(tensor, AttributeName::TENSOR_BYTE_ALIGNMENT, AttributeType::INT64, &[16_i64]);
            self.set(tensor, AttributeName::TENSOR_IS_VIRTUAL, AttributeType::BOOLEAN, &[is_virtual]);
        })
    }

    fn pointwise(&self, mode: PointwiseMode, x: Descriptor, b: Option<Descriptor>, y: Descriptor) -> Descriptor {
        let pointwise = self.finished(DescriptorType::POINTWISE, |pointwise| {
            self.set(pointwise, AttributeName::POINTWISE_MODE, AttributeType::POINTWISE_MODE, &[mode]);
            self.set(pointwise, AttributeName::POINTWISE_MATH_PREC, AttributeType::DATA_TYPE, &[DataType::FLOAT]);
        });
        self.operation(
            DescriptorType::OPERATION_POINTWISE,
            &[
                (AttributeName::OPERATION_POINTWISE_PW_DESCRIPTOR, Some(pointwise)),
                (AttributeName::OPERATION_POINTWISE_XDESC, Some(x)),
                (AttributeName::OPERATION_POINTWISE_BDESC, b),
                (AttributeName::OPERATION_POINTWISE_YDESC, Some(y)),
            ],
        )
    }

    fn operation(&self, kind: DescriptorType, parts: &[(AttributeName, Option<Descriptor>)]) -> Descriptor {
        self.finished(kind, |operation| {
            for (name, part) in parts.iter().filter_map(|(name, part)| Some((*name, (*part)?))) {
                self.set(operation, name, AttributeType::BACKEND_DESCRIPTOR, &[part]);
            }
        })
    }

    fn matmul(&self, a: Descriptor, b: Descriptor, c: Descriptor, compute: DataType) -> Descriptor {
        let matmul = self.finished(DescriptorType::MATMUL, |matmul| {
            self.set(matmul, AttributeName::MATMUL_COMP_TYPE, AttributeType::DATA_TYPE, &[compute]);
        });
        let parts = [
            (AttributeName::OPERATION_MATMUL_ADESC, Some(a)),
            (AttributeName::OPERATION_MATMUL_BDESC, Some(b)),
            (AttributeName::OPERATION_MATMUL_CDESC, Some(c)),
            (AttributeName::OPERATION_MATMUL_DESC, Some(matmul)),
        ];
        self.operation(DescriptorType::OPERATION_MATMUL, &parts)
    }

    fn graph(&self, operations: &[Descriptor]) -> Descriptor {
        self.finished(DescriptorType::OPERATIONGRAPH, |graph| {
            self.set(graph, AttributeName::OPERATIONGRAPH_OPS, AttributeType::BACKEND_DESCRIPTOR, operations);
        })
    }

    /// The H200, from its properties.
    fn h200(&self) -> Descriptor {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/device-properties/h200.json");
        let properties = std::fs::read(path).expect("the fixture");
        self.finished(DescriptorType::DEVICEPROP, |gpu| {
            self.set(gpu, AttributeName::DEVICEPROP_JSON_REPRESENTATION, AttributeType::CHAR, &properties);
        })
    }

    /// `relu(a @ b + bias)`, BF16 with F32 in between.
    fn matmul_bias_relu(&self) -> Descriptor {
        let (half, float) = (DataType::BFLOAT16, DataType::FLOAT);
        let a = self.tensor(1, [16, 512, 512], half, false);
        let b = self.tensor(2, [16, 512, 1024], half, false);
        let bias = self.tensor(3, [1, 1, 1024], half, false);
        let y = self.tensor(4, [16, 512, 1024], half, false);
        let product = self.tensor(5, [16, 512, 1024], float, true);
        let sum = self.tensor(6, [16, 512, 1024], float, true);
        self.graph(&[
            self.matmul(a, b, product, float),
            self.pointwise(PointwiseMode::ADD, product, Some(bias), sum),
            self.pointwise(PointwiseMode::RELU_FWD, sum, None, y),
        ])
    }

    fn configs(&self, graph: Descriptor, gpu: Descriptor) -> Vec<Descriptor> {
        let (results, descriptors) = (AttributeName::ENGINEHEUR_RESULTS, AttributeType::BACKEND_DESCRIPTOR);
        let heuristics = self.finished(DescriptorType::ENGINEHEUR, |heuristics| {
            self.set(heuristics, AttributeName::ENGINEHEUR_OPERATION_GRAPH, descriptors, &[graph]);
            self.set(heuristics, AttributeName::ENGINEHEUR_MODE, AttributeType::HEUR_MODE, &[HeurMode::A]);
            self.set(heuristics, AttributeName::ENGINEHEUR_DEVICEPROP, descriptors, &[gpu]);
        });
        let announced = self.count(heuristics, results, descriptors);
        let mut configs: Vec<Descriptor> = (0..announced).map(|_| self.make(DescriptorType::ENGINECFG)).collect();
        let mut count = 0;
        let elements = configs.as_mut_ptr().cast::<c_void>();
        // SAFETY: the array holds as many descriptors of the right kind as said.
        let status = unsafe {
            (self.0.backend_get_attribute)(heuristics, results, descriptors, announced, &mut count, elements)
        };
        assert!(status.is_success(), "{status} {}", self.0.last_error());
        configs.truncate(count as usize);
        configs
    }
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn matmul_bias_relu_for_an_h200_is_one_plan() {
    let library = Library::for_planning().unwrap_or_else(|error| panic!("{error}"));
    let cudnn = Cudnn(library.api());
    let gpu = cudnn.h200();
    let graph = cudnn.matmul_bias_relu();
    let configs = cudnn.configs(graph, gpu);
    assert!(!configs.is_empty(), "no engine is offered");

    let descriptors = AttributeType::BACKEND_DESCRIPTOR;
    let mut refusals = vec![];
    let plan = configs.into_iter().find_map(|config| {
        let plan = cudnn.make(DescriptorType::EXECUTION_PLAN);
        cudnn.set(plan, AttributeName::EXECUTION_PLAN_ENGINE_CONFIG, descriptors, &[config]);
        cudnn.set(plan, AttributeName::EXECUTION_PLAN_DEVICEPROP, descriptors, &[gpu]);
        cudnn.finish(plan).inspect_err(|status| refusals.push(format!("{status} {}", library.api().last_error()))).ok()
    });
    let plan = plan.unwrap_or_else(|| panic!("no plan builds: {refusals:#?}"));
    let bytes = cudnn.count(plan, AttributeName::EXECUTION_PLAN_JSON_REPRESENTATION, AttributeType::CHAR);
    assert!(bytes > 10_000, "a plan with its kernel has more than {bytes} bytes");
}

#[test]
#[ignore = "needs cuDNN; cargo xtask test brings it"]
fn a_refused_graph_says_why_for_each_engine() {
    let library = Library::for_planning().unwrap_or_else(|error| panic!("{error}"));
    let cudnn = Cudnn(library.api());
    let gpu = cudnn.h200();
    // Kernels with an epilogue take no F64.
    let double = DataType::DOUBLE;
    let [a, b, c] = [1, 2, 3].map(|uid| cudnn.tensor(uid, [1, 512, 512], double, false));
    let graph = cudnn.graph(&[cudnn.matmul(a, b, c, double)]);

    let (configs, messages) = log::collect(library.api(), || cudnn.configs(graph, gpu));
    assert_eq!(configs, Vec::<Descriptor>::new());
    let refusals = log::distinct(messages.iter().flat_map(log::Message::refusals).collect());
    let by_type = |(refusal, _): &&(log::Refusal, usize)| {
        refusal.engine.is_some() && refusal.status == Status::NOT_SUPPORTED_DATA_TYPE
    };
    let refusal = refusals.iter().find(by_type).unwrap_or_else(|| panic!("{refusals:#?}"));
    assert!(!refusal.0.knobs.is_empty() && refusal.0.reason().len() > 10, "{refusal:#?}");

    // Nothing more is collected, and another thread's calls never were.
    let ((), elsewhere) = log::collect(library.api(), || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let cudnn = Cudnn(library.api());
                let [a, b, c] = [1, 2, 3].map(|uid| cudnn.tensor(uid, [1, 512, 512], double, false));
                let graph = cudnn.graph(&[cudnn.matmul(a, b, c, double)]);
                assert_eq!(cudnn.configs(graph, cudnn.h200()), Vec::<Descriptor>::new());
            });
        });
    });
    assert_eq!(elsewhere, []);
}
